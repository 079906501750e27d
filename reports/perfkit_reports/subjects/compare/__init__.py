"""Comparisons of runs, as a document."""
