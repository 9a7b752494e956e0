"""All that only reproduces the paper: what it prints, what that needs trained, and what has become of it."""
