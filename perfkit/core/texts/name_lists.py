"""Lists of names in sentences."""

from collections.abc import Sequence


def list_first(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: `rank 0, rank 1 and 3 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
