"""Splits the variants of a round into groups whose processes are resident together."""

from collections.abc import Mapping, Sequence

# A variant this many times slower than its baseline is measured apart from the others, which would have to wait for
# each of its turns.
_SLOW = 4.0


def split_by_speed(others: Sequence[str], reference: str, step_s: Mapping[str, float]) -> list[list[str]]:
    """Those of `others` that are much slower than the reference, by their times of a step, apart from the others."""
    slow = [name for name in others if step_s[name] > _SLOW * step_s[reference]]
    kinds = [name for name in others if name not in slow], slow
    return [kind for kind in kinds if kind] or [[*others]]


def split_by_memory(
    anchors: Sequence[str], others: Sequence[str], need: Mapping[str, float], free: float
) -> list[tuple[list[str], bool]]:
    """Groups whose bytes (`need`) fit into `free`, each with the `anchors`; False for one that does not fit although it
    has only one of `others`."""
    groups = [[*anchors]]
    for name in others:
        if len(groups[-1]) > len(anchors) and sum(need[member] for member in (*groups[-1], name)) > free:
            groups.append([*anchors])
        groups[-1].append(name)
    return [(group, sum(need[name] for name in group) <= free) for group in groups]
