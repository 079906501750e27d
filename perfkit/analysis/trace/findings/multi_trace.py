"""Rules about several traces: ranks of one job, and a trace before and after a change."""

from collections.abc import Iterator
from statistics import median

from perfkit.analysis.findings.rank_differences import describe_rank_differences
from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.fleet import Fleet
from perfkit.analysis.trace.findings.trace_thresholds import CHANGE, NOTABLE
from perfkit.core.note import list_texts
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_percent, format_seconds

_IN_COMMUNICATION = "part of the exposed communication"
_NOT_SIMULATED = "the traces do not show which work delays a rank"
_MOST_NAMED = 3
_NOTHING = 1e-9  # times are whole nanoseconds: smaller sums are rounding errors


def find_straggler(fleet: Fleet) -> Iterator[Finding]:
    """A rank that others wait for, or several that come late together."""
    slow = next((rank for rank in fleet.ranks if rank.label == fleet.straggler), None)
    if slow is None or slow.late_s is None or slow.step_s <= 0 or slow.late_s < NOTABLE * slow.step_s:
        return
    named = (slow.label, *(label for label in fleet.stragglers if label != slow.label))
    rest = [rank for rank in fleet.ranks if rank.label not in named]
    others = sorted(rank.compute_s for rank in rest)
    compute = f"; compute {format_seconds(slow.compute_s)} per step, others {_format_span(others)}" if others else ""
    latest = [row for row in fleet.skew if row.latest_rank == slow.label]
    where = "" if not latest else f"; last at {format_percent(latest[0].latest_share, 0)} of {latest[0].name} calls"
    if slow.last_share is not None:
        where += f", last overall in {format_percent(slow.last_share, 0)} of steps"
    idle = sorted(rank.idle_s for rank in rest)
    waits_for_cpu = bool(idle) and slow.idle_s - median(idle) >= _MOST * slow.late_s
    if waits_for_cpu:
        compute += f"; device idle {format_seconds(slow.idle_s)} per step, others {_format_span(idle)}"
    alone_s = slow.late_s if slow.caused_s is None else slow.caused_s
    gain_s, figures = alone_s, {"late_s": slow.late_s, "compute_s": slow.compute_s}
    if fleet.stragglers and fleet.stragglers_saved_s is not None:
        gain_s = fleet.stragglers_saved_s
        figures |= {"alone_s": alone_s, "together_s": gain_s, "stragglers": len(named)}
        delays = sorted(rank.late_s or 0.0 for rank in fleet.ranks if rank.label in named[1:])
        everyone = "both" if len(named) == 2 else f"all {len(named)}"
        where += (
            f"; delay of {list_first(named[1:], _MOST_NAMED)}: {_format_span(delays)}; fixing {slow.label} alone saves "
            f"{format_seconds(alone_s)}, {everyone} {format_seconds(gain_s)}"
        )
    yield Finding(
        id="ranks.straggler",
        severity="gain",
        title=f"{'Stragglers' if len(named) > 1 else 'Straggler'}: {list_first(named, _MOST_NAMED)}",
        variant=slow.label,
        evidence=f"reaches collectives {format_seconds(slow.late_s)} per step after the first rank "
        f"({format_percent(slow.late_s / slow.step_s)} of the step){where}{compute}",
        details=(_IN_COMMUNICATION,),
        action=_FIND_CPU_DELAY if waits_for_cpu else _EQUALIZE_WORK,
        gain_s=gain_s,
        not_simulated_reason=_NOT_SIMULATED,
        figures={**figures, **({"idle_s": slow.idle_s} if waits_for_cpu else {})},
    )


_MOST = 0.5  # of the delay: the least that more idle time explains

_EQUALIZE_WORK = (
    "Give every rank equal work (batch, sequence lengths, experts); if it already has, check its clocks, temperature "
    "and neighbors (nvidia-smi -q -d PERFORMANCE,CLOCK)."
)
_FIND_CPU_DELAY = (
    "Its device waits for its CPU: see its idle time by cause, and check its data loading, garbage collection, cores "
    "(numactl, taskset) and other processes on its host."
)


def find_rank_waiting(fleet: Fleet) -> Iterator[Finding]:
    """Collectives at which ranks wait for each other, whichever rank is last."""
    step_s = max((rank.step_s for rank in fleet.ranks), default=0.0)
    named = fleet.stragglers or ((fleet.straggler,) if fleet.straggler else ())
    rows = [row for row in fleet.skew if row.latest_rank not in named]
    wait = sum(row.wait_s for row in rows)
    if step_s > 0 and wait >= NOTABLE * step_s:
        worst = max(rows, key=lambda row: row.wait_s)
        yield Finding(
            id="ranks.waiting",
            severity="gain",
            title="Ranks wait for each other at collectives",
            variant="",
            evidence=f"mean {format_seconds(wait)} per step ({format_percent(wait / step_s)}), most at {worst.name} "
            f"({format_seconds(worst.wait_s)}, up to {format_seconds(worst.worst_wait_s)}); the last rank varies",
            details=(_IN_COMMUNICATION,),
            action="Balance what varies from step to step: sequence lengths, data loading, garbage collection "
            "(gc.disable(), then gc.collect() at the same step on all ranks).",
            gain_s=wait,
            not_simulated_reason=_NOT_SIMULATED,
            figures={"wait_s": wait, "most_s": worst.wait_s, "worst_s": worst.worst_wait_s},
        )


def find_rank_differences(fleet: Fleet) -> Iterator[Finding]:
    """Ranks whose traces name other devices or versions than most."""
    if fleet.differences:
        words = describe_rank_differences(fleet.differences)
        yield Finding(
            id="ranks.environments",
            severity="warning",
            title=words.title,
            variant=fleet.job,
            evidence=words.evidence,
            action=words.action,
            figures=words.figures,
        )


def find_step_change(difference: TraceDifference) -> Iterator[Finding]:
    """The change of step time, and the ops behind it."""
    before, after = difference.before_step_s, difference.after_step_s
    if before <= 0 or abs(after / before - 1) < CHANGE:
        return
    slower = after > before
    parts = [(" ".join(filter(None, (row.name, row.phase))), row.change_s) for row in difference.changes]
    parts.append(("other ops", difference.rest_after_s - difference.rest_before_s))
    parts.append(("time without ops", after - before - sum(change for _, change in parts)))
    ranked = sorted(parts, key=lambda part: part[1], reverse=slower)
    largest = [(name, change) for name, change in ranked if (change > 0) == slower and abs(change) > _NOTHING][:3]
    changes = "; ".join(f"{name} {_format_signed_s(change)}" for name, change in largest)
    yield Finding(
        id="step.slower" if slower else "step.faster",
        severity="warning" if slower else "note",
        title=f"Step {format_percent(abs(after / before - 1))} {'slower' if slower else 'faster'} than "
        f"{difference.before}",
        variant=difference.after,
        evidence=f"{format_seconds(after)} vs {format_seconds(before)}; largest changes: {changes}",
        details=list_texts(difference.notes),
        action="Look at the ops that changed most in the comparison." if slower else "",
        figures={"before_s": before, "after_s": after},
    )


def _format_signed_s(value: float) -> str:
    return f"{'+' if value >= 0 else '-'}{format_seconds(abs(value))}"


def _format_span(values: list[float]) -> str:
    return (
        format_seconds(values[0])
        if values[0] == values[-1]
        else f"{format_seconds(values[0])} to {format_seconds(values[-1])}"
    )
