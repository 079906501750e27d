"""Data in, data out: what a suite of runs shows."""
