"""Charts, the HTML report, tables for a terminal, and live progress."""
