"""Completes findings with what a program acts on: the ranges of gains, their basis, and a command that verifies."""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from perfkit.analysis.model.finding import FigureBasis, Finding, GainRange
from perfkit.analysis.model.step import AT_LEAST


def complete_findings(
    findings: Iterable[Finding], verify: Callable[[Finding], str], undo: Callable[[Finding], str] = lambda _: ""
) -> tuple[Finding, ...]:
    """The findings with the ranges of their gains; `verify` and `undo` write the commands that verify one and that undo
    what it is about, "" for none."""
    return tuple(_complete(finding, verify, undo) for finding in findings)


def _complete(finding: Finding, verify: Callable[[Finding], str], undo: Callable[[Finding], str]) -> Finding:
    gains = finding.gains or tuple(find_ranges(finding))
    basis: FigureBasis = gains[0].basis if gains else "measured"
    return replace(
        finding,
        gains=gains,
        confidence=basis,
        verify=finding.verify or verify(finding),
        undo=finding.undo or undo(finding),
    )


def find_ranges(finding: Finding) -> Iterator[GainRange]:
    """Ranges of gains that were not measured: a fix may save nothing, and at most all that it touches."""
    simulated_s, summed_s = finding.simulated_s, finding.gain_s
    if simulated_s is not None:
        touched_s = simulated_s if finding.touched is None else finding.touched.total_s
        yield GainRange(unit="s", low=0.0, high=max(simulated_s, touched_s), basis="simulated")
    elif summed_s is not None and finding.gain_bound == AT_LEAST:
        yield GainRange(unit="s", low=summed_s, high=None, basis="bound")
    elif summed_s is not None:
        yield GainRange(unit="s", low=0.0, high=summed_s, basis="bound")
    if finding.gain_bytes is not None:
        yield GainRange(unit="bytes", low=0.0, high=finding.gain_bytes, basis="bound")
