"""The order in which findings are told."""

from collections.abc import Iterable

from perfkit.analysis.result import Finding

_SEVERITIES = ("warning", "gain", "note")


def ordered(found: Iterable[tuple[int, Finding]]) -> tuple[Finding, ...]:
    """Warnings first, since they say what not to trust, then gains, then notes.

    Within a severity, groups come in the order of their number, and in each the largest gain first.
    """
    by_weight = sorted(found, key=lambda item: (_SEVERITIES.index(item[1].severity), item[0], -(item[1].gain_s or 0.0)))
    return tuple(finding for _, finding in by_weight)
