"""Describes ranks whose environments differ, from records or traces."""

from collections.abc import Sequence
from typing import NamedTuple

from perfkit.analysis.model.fleet import RankDifference
from perfkit.core.texts.name_lists import list_first

_MOST_NAMED = 8


class RankDifferenceWords(NamedTuple):
    """Title, evidence, action and figures of the finding."""

    title: str
    evidence: str
    action: str
    figures: dict[str, float]


def describe_rank_differences(differences: Sequence[RankDifference]) -> RankDifferenceWords:
    """The words on the ranks that differ from most others; of equally many, from the first."""
    named = {label for differs in differences for labels in differs.ranks[1:] for label in labels}
    return RankDifferenceWords(
        title=f"{list_first(sorted(named), 3)}: other environment",
        evidence="; ".join(map(_describe_difference, differences)),
        action="Install the same versions and export the same variables on all hosts, and give all ranks equal "
        "devices: the slowest rank holds up all others.",
        figures={"ranks": len(named), "differences": len(differences)},
    )


def _describe_difference(differs: RankDifference) -> str:
    others = (
        f"{value} on {list_first(labels, _MOST_NAMED)}"
        for value, labels in zip(differs.values[1:], differs.ranks[1:], strict=True)
    )
    return f"{differs.key}: {', '.join(others)}, else {differs.values[0]}"
