"""Analyses in the formats of other tools."""
