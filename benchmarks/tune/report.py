"""The results as a page."""

from statistics import median

from benchmarks.tune.faults import FAULTS
from benchmarks.tune.judge import judge_fault, list_false_alarms
from benchmarks.tune.results import Results
from perfkit.core.units import format_percent, format_seconds


def as_markdown(results: Results) -> str:
    """All faults, what names them, and what they cost."""
    measured = [fault for fault in FAULTS.values() if fault.id in results.faulty and fault.id in results.gains]
    verdicts = {
        fault.id: judge_fault(fault, results.faulty[fault.id], results.gains[fault.id], results.clean.get(fault.twin))
        for fault in measured
    }
    twins = {fault.id: results.clean[fault.twin] for fault in measured if fault.twin in results.clean}
    alarms = {
        name: [finding.id for finding in list_false_alarms(run, list(FAULTS.values()))] for name, run in twins.items()
    }
    stated = [verdict for verdict in verdicts.values() if verdict.within is not None]
    ratios = [
        verdict.named.high / results.gains[name].share
        for name, verdict in verdicts.items()
        if verdict.named is not None and verdict.named.high is not None and results.gains[name].share > 0
    ]
    lines = [
        "# Findings and `perfkit tune` on planted faults",
        "",
        "    python -m benchmarks.tune",
        "",
        f"{', '.join(f'{key} {value}' for key, value in results.machine.items())}. First: before it are only gains "
        "that most programs have, without a fault, too (gemm.fp32, fusion.elementwise, cpu.dispatch). Within: the "
        "measured gain, or its 95 % interval, lies in the finding's range"
        + (f", whose upper end is {median(ratios):.1f} times the measured gain in the median." if ratios else "."),
        "",
        "| faults | named | first | first of all | gain within its range | clean twins left alone |",
        "|---:|---:|---:|---:|---:|---:|",
        f"| {len(measured)} | {sum(verdict.place is not None for verdict in verdicts.values())} "
        f"| {sum(verdict.first for verdict in verdicts.values())} "
        f"| {sum(verdict.place == 1 for verdict in verdicts.values())} "
        f"| {sum(verdict.within is True for verdict in stated)} of {len(stated)} "
        f"| {sum(not found for found in alarms.values())} of {len(alarms)} "
        f"({len({FAULTS[name].twin for name in alarms})} programs) |",
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
    if results.tuned or results.tuned_clean:
        lines += _format_searches(results)
    return "\n".join(lines) + "\n"


def _format_searches(results: Results) -> list[str]:
    """What `perfkit tune` made of the scripts."""
    runs = [*results.tuned.items(), *((f"{name} (clean)", run) for name, run in results.tuned_clean.items())]
    accepted = [run for _, run in runs if run.measured is not None]
    wrong = [run for run in accepted if run.wrong]
    trials = [run.trials for _, run in runs]
    lines = [
        "",
        "## `perfkit tune`",
        "",
        "    python -m benchmarks.tune --only tune",
        "",
        f"{len(runs)} searches, {len(accepted)} accepted patches, **{len(wrong)} of them wrong** (slower, or other "
        f"losses); {sum(trials)} trials in all, at most {max(trials)} a search. Gains are those of the patches, "
        "measured once more, and not of the script without its fault.",
        "",
        "| script | patch | measured gain | loss difference | trials | time | wrong, or why there is no patch |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for name, run in runs:
        gain, difference = run.measured, run.loss_difference
        interval = ""
        if gain is not None:
            interval = f"{format_percent(gain.share)} ({format_percent(gain.low)} to {format_percent(gain.high)})"
        lines.append(
            f"| `{name}` | {run.best or 'none'}{'' if gain or not run.best else ' (not proven)'} | {interval} "
            f"| {'' if difference is None else f'{difference:.1e}'} | {run.trials} | {format_seconds(run.spent_s)} "
            f"| {run.wrong or run.reason} |"
        )
    return lines
