"""Predicts the time of a rehearsed step from measured efficiencies."""
