"""Class uncertainty in other tools: one module each, imported only by those who use it."""
