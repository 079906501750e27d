"""Analyses of recorded runs, as data."""
