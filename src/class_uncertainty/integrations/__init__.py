"""Class uncertainty and prior adjustment in the tools of others, by their own conventions."""
