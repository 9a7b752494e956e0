"""Rows, tables, figures and the report."""
