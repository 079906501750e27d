"""The order of findings in a report."""

from collections.abc import Iterable

from perfkit.analysis.model.finding import Finding

_SEVERITIES = ("warning", "gain", "note")


def sort_findings(findings: Iterable[tuple[int, Finding]]) -> tuple[Finding, ...]:
    """Warnings first, since they name what not to trust, then gains, then notes.

    Within a severity, groups come in the order of their number, and in each the largest gain first: of time (as it
    was simulated, else summed), then of memory.
    """
    return tuple(finding for _, finding in sorted(findings, key=_get_sort_key))


def _get_sort_key(item: tuple[int, Finding]) -> tuple[int, int, float, int]:
    group, finding = item
    return _SEVERITIES.index(finding.severity), group, -(finding.expected_s or 0.0), -(finding.gain_bytes or 0)
