"""What each table and figure of the paper needs, as lists of lanes, and the paper's printed numbers."""
