"""The results as a page."""

from benchmarks.tune.faults import FAULTS
from benchmarks.tune.judge import judge_fault, list_false_alarms
from benchmarks.tune.results import Results
from perfkit.core.units import format_percent


def as_markdown(results: Results) -> str:
    """All faults, what names them, and what they cost."""
    measured = [fault for fault in FAULTS.values() if fault.id in results.faulty and fault.id in results.gains]
    verdicts = {fault.id: judge_fault(fault, results.faulty[fault.id], results.gains[fault.id]) for fault in measured}
    twins = {fault.id: results.clean[fault.twin] for fault in measured if fault.twin in results.clean}
    alarms = {
        name: [finding.id for finding in list_false_alarms(run, list(FAULTS.values()))] for name, run in twins.items()
    }
    stated = [verdict for verdict in verdicts.values() if verdict.within is not None]
    lines = [
        "# Findings and `perfkit tune` on planted faults",
        "",
        "    python -m benchmarks.tune",
        "",
        "| faults | named | named first | gain within its interval | clean twins left alone |",
        "|---:|---:|---:|---:|---:|",
        f"| {len(measured)} | {sum(verdict.place is not None for verdict in verdicts.values())} "
        f"| {sum(verdict.first for verdict in verdicts.values())} "
        f"| {sum(verdict.within is True for verdict in stated)} of {len(stated)} "
        f"| {sum(not found for found in alarms.values())} of {len(alarms)} |",
        "",
        "| fault | program | measured gain | finding | place | stated gain | clean twin |",
        "|---|---|---:|---|---:|---:|---|",
    ]
    for fault in measured:
        gain, verdict = results.gains[fault.id], verdicts[fault.id]
        named = verdict.named
        place = "" if verdict.place is None else str(verdict.place) + ("" if verdict.first else " (not first)")
        stated_gain = ""
        if named is not None and named.high is not None:
            outside = "" if verdict.within else " **outside**"
            stated_gain = f"{format_percent(named.low or 0.0)} to {format_percent(named.high)}{outside}"
        lines.append(
            f"| `{fault.id}` | {fault.program} | {format_percent(gain.share)} ({format_percent(gain.low)} to "
            f"{format_percent(gain.high)}) | {'' if named is None else f'`{named.id}`'} | {place} | {stated_gain} "
            f"| {', '.join(f'`{name}`' for name in alarms.get(fault.id, ())) or 'left alone'} |"
        )
    return "\n".join(lines) + "\n"
