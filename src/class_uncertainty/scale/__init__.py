"""More than one process: lanes on a Ray cluster, and shards of rows."""
