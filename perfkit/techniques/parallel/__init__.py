"""Techniques for several ranks."""
