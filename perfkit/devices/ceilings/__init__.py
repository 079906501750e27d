"""Ceilings as data: values, sources, spread, confidence."""
