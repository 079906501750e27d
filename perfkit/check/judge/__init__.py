"""Verdicts: which quantities changed by more than their threshold, and how sure that is."""
