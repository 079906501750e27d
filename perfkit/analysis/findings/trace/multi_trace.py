"""Rules about several traces: ranks of one job, and a trace before and after a change."""

from collections.abc import Iterator

from perfkit.analysis.findings.trace.thresholds import CHANGE, NOTABLE
from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.fleet import Fleet
from perfkit.units import format_percent, format_seconds

_IN_COMMUNICATION = "the gain is part of the exposed communication"
_NOT_SIMULATED = "the traces do not tell which of a rank's work makes it late"


def find_straggler(fleet: Fleet) -> Iterator[Finding]:
    """A rank that the others wait for."""
    slow = next((rank for rank in fleet.ranks if rank.label == fleet.straggler), None)
    if slow is None or slow.late_s is None or slow.step_s <= 0 or slow.late_s < NOTABLE * slow.step_s:
        return
    others = sorted(rank.compute_s for rank in fleet.ranks if rank is not slow)
    beside = (
        ""
        if not others
        else f"; it computes {format_seconds(slow.compute_s)} a step, the others {_format_span(others)}"
    )
    latest = [row for row in fleet.skew if row.latest_rank == slow.label]
    where = "" if not latest else f"; last at {format_percent(latest[0].latest_share, 0)} of {latest[0].name}"
    if slow.last_share is not None:
        where += f", and of all in {format_percent(slow.last_share, 0)} of the steps"
    yield Finding(
        id="ranks.straggler",
        severity="gain",
        title=f"The other ranks wait for {slow.label}",
        variant=slow.label,
        evidence=f"straggler delay: it reaches collectives {format_seconds(slow.late_s)} a step after the first rank "
        f"({format_percent(slow.late_s / slow.step_s)} of the step){where}{beside}",
        details=(_IN_COMMUNICATION,),
        action="Give every rank equal work (batch, sequence lengths, experts); if it computes the same for longer, "
        "check its clocks, temperature and neighbours (nvidia-smi -q -d PERFORMANCE, CLOCK).",
        gain_s=slow.late_s,
        not_simulated=_NOT_SIMULATED,
        figures={"late_s": slow.late_s, "compute_s": slow.compute_s},
    )


def find_rank_waiting(fleet: Fleet) -> Iterator[Finding]:
    """Collectives at which ranks wait for each other, whoever is the last."""
    step_s = max((rank.step_s for rank in fleet.ranks), default=0.0)
    rows = [row for row in fleet.skew if row.latest_rank != fleet.straggler or not fleet.straggler]
    wait = sum(row.wait_s for row in rows)
    if step_s > 0 and wait >= NOTABLE * step_s:
        worst = max(rows, key=lambda row: row.wait_s)
        yield Finding(
            id="ranks.waiting",
            severity="gain",
            title="Ranks wait for each other at collectives",
            variant="",
            evidence=f"{format_seconds(wait)} a step on average ({format_percent(wait / step_s)}), most at {worst.name} "
            f"({format_seconds(worst.wait_s)}, up to {format_seconds(worst.worst_wait_s)}), with changing ranks as the last",
            details=(_IN_COMMUNICATION,),
            action="Balance what varies from step to step: sequence lengths, data loading, garbage collection "
            "(gc.disable() and a collection at the same step on all ranks).",
            gain_s=wait,
            not_simulated=_NOT_SIMULATED,
            figures={"wait_s": wait, "most_s": worst.wait_s, "worst_s": worst.worst_wait_s},
        )


def find_step_change(difference: TraceDifference) -> Iterator[Finding]:
    """Whether the step became faster or slower, and which ops did."""
    before, after = difference.before_step_s, difference.after_step_s
    if before <= 0 or abs(after / before - 1) < CHANGE:
        return
    slower = after > before
    parts = [(" ".join(filter(None, (row.name, row.phase))), row.change_s) for row in difference.changes]
    parts.append(("other ops", difference.rest_after_s - difference.rest_before_s))
    parts.append(("time without ops", after - before - sum(change for _, change in parts)))
    ranked = sorted(parts, key=lambda part: part[1], reverse=slower)
    blamed = [(name, change) for name, change in ranked if (change > 0) == slower and change][:3]
    text = "; ".join(f"{name} {_format_signed_s(change)}" for name, change in blamed)
    yield Finding(
        id="step.slower" if slower else "step.faster",
        severity="warning" if slower else "note",
        title=f"The step is {format_percent(abs(after / before - 1))} {'slower' if slower else 'faster'} than in "
        f"{difference.before}",
        variant=difference.after,
        evidence=f"{format_seconds(after)} against {format_seconds(before)}; most in {text}",
        details=difference.notes,
        action="See the rows of the difference." if slower else "",
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
