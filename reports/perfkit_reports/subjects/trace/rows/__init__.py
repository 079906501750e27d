"""Rows of work of a trace, and their columns."""
