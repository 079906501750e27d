"""Runs held against each other, as a document."""
