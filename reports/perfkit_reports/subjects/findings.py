"""The findings section, first in every report."""

from collections.abc import Iterator, Mapping, Sequence

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.replay import FindingGains
from perfkit.analysis.model.trace import RankTrace
from perfkit.core import units
from perfkit_reports.document.blocks import Findings, Section, Text
from perfkit_reports.document.weight import Weight

_MOST_TRACES = 4
_ALONE = 1.01  # times the largest gain: up to here, the other fixes add nothing to it
_SUM = 1.0001  # of the gains of the findings shown: the most that all of them are said to save together
_NOTHING = "No findings."


def build_section(items: Sequence[Finding], owner: str, nothing: str = "", traces: Sequence[RankTrace] = ()) -> Section:
    """The section; `owner` labels the findings' subjects (empty for one), `nothing` is the text without findings.

    The combined gain of `traces` with simulated gains is shown.
    """
    block = Findings(id="found", items=tuple(items), owner=owner, nothing=nothing or _NOTHING, weight=Weight.BRIEF)
    lines = tuple(_list_combined_gains(traces, items))
    combined = (
        (Text(id="together", lines=lines, style="list" if len(lines) > 1 else "paragraph", weight=Weight.BRIEF),)
        if lines
        else ()
    )
    return Section("findings", "Findings", (*combined, block))


def _list_combined_gains(traces: Sequence[RankTrace], items: Sequence[Finding]) -> Iterator[str]:
    """The combined gain of all fixes, of the first few traces; where one alone gains as much, what limits them.

    Of a trace whose fixes are findings of another, nothing is said: nobody could add them up.
    """
    titles = {finding.id: finding.title for finding in items}
    for trace in traces[:_MOST_TRACES]:
        gains = trace.gains
        if gains is None or gains.together_s is None or not gains.step_s:
            continue
        own = [finding for finding in items if finding.variant == trace.label and finding.simulated_s is not None]
        fixes = len({finding.id for finding in own})
        if fixes < 2 or gains.together_s > _SUM * sum(finding.simulated_s or 0.0 for finding in own):
            continue
        name = f", {trace.label}" if len(traces) > 1 else ""
        after = units.format_seconds(max(0.0, gains.step_s - gains.together_s))
        yield (
            f"All {fixes} simulated fixes combined{name}: "
            f"{units.format_seconds(gains.step_s)} → {after} {'per step' if trace.steps else 'in total'}"
            f"{_explain_combined_gain(gains, gains.together_s, titles)}."
        )


def _explain_combined_gain(gains: FindingGains, together_s: float, titles: Mapping[str, str]) -> str:
    best, best_s = max(gains.by_finding.items(), key=lambda item: item[1])
    if together_s > _ALONE * best_s or not gains.together_path:
        return ""
    kind, seconds = max(gains.together_path.items(), key=lambda item: item[1])
    share = units.format_percent(seconds / sum(gains.together_path.values()), 0)
    return f", as “{titles.get(best, best)}” alone: the critical path is then {share} {kind}"
