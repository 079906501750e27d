"""Finds the first commit, release or lock file line that made training worse, by binary search with checks."""
