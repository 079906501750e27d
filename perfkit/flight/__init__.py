"""Torch's flight recorder: its records of collectives, and mismatches between ranks."""
