"""Verdicts: quantities that changed by more than their threshold, and the confidence."""
