"""Adjusts p-values of several quantities so that the level holds for all of them together."""

from collections.abc import Sequence


def adjust_p_values(p_values: Sequence[float], family: int = 0) -> list[float]:
    """Holm's adjusted p-values in the given order, to be compared with the family's level.

    The i-th smallest of m is multiplied by m - i + 1 and is no less than those before it (S. Holm, Scand. J. Statist.
    6 (1979), 65-70). Valid for any dependence between quantities. A `family` larger than the
    number of p-values counts hypotheses that are tested elsewhere as if they came last.
    """
    size = max(family, len(p_values))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    result = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (size - rank) * p_values[index]))
        result[index] = largest
    return result
