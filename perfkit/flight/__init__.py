"""Torch's flight recorder: what it keeps of collectives, and where ranks do not meet in them."""
