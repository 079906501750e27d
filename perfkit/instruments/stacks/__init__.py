"""Samples of the Python stack of a thread, taken by another thread of the same process."""
