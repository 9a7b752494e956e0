"""What the commands do, as functions that take and return values and never print."""
