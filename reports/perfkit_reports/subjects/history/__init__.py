"""Histories: how figures went over many runs, and where they changed."""
