"""Kineto's JSON to columns: decompresses, splits, decodes, repairs."""
