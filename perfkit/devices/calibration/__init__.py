"""Measures a device's ceilings and keeps them."""
