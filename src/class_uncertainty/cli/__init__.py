"""The command line: one file a command. A command parses, calls a workflow and renders what it returns."""
