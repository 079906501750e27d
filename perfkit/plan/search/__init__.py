"""Searches for what fits into a rank's memory."""
