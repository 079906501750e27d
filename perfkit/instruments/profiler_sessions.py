"""Counts the GPU recordings of this process, perfkit's and the program's own: CUPTI's faults depend on it."""

_begun = 0


def count_session() -> int:
    """Count one more; returns its number, from 1."""
    global _begun
    _begun += 1
    return _begun
