"""Splits the variants of a round into groups whose processes are resident together."""

from collections.abc import Mapping, Sequence


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
