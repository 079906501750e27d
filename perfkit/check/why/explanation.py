"""Explains a change: differences in ops and memory between the sides of a check, and suspects."""

from collections.abc import Iterator, Sequence

from perfkit.analysis.model.difference import TraceDifference
from perfkit.check.judge.result import ChangeExplanation, JudgedQuantity, MemoryChange
from perfkit.check.why import memory_changes, op_changes, record_changes, suspects
from perfkit.check.why.implementation_changes import find_implementation_suspects
from perfkit.check.why.side import SideAnalysis, TracedSteps
from perfkit.core.note import Note, make_note
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.units import format_signed_percent


def explain_variant(before: SideAnalysis, after: SideAnalysis, *, times_differ: bool = True) -> ChangeExplanation:
    """Explain the changes of a variant between two analyzed sides.

    Args:
        before: the before side, with an instrumented run (trace and memory recording).
        after: the after side.
        times_differ: True if the times of steps differ for certain. Otherwise no op is suspected for its time alone: on
            a busy machine, a trace of one process shows such ops in every eighth pair of equal sides. The table of ops
            still lists them.

    Missing data of a side becomes a note.
    """
    notes = [*_list_missing(before, "before"), *_list_missing(after, "after")]
    suspected: list[suspects.Suspect] = []
    time: TraceDifference | None = None
    if before.traced is not None and after.traced is not None:
        time, drift = op_changes.find_changed_ops(before.traced, after.traced, (before.allocations, after.allocations))
        step_s = before.traced.trace.step_s
        suspected += suspects.find_call_suspects(time.changes, step_s)
        suspected += suspects.find_input_suspects(time.changes, step_s)
        if times_differ:
            suspected += suspects.find_time_suspects(time.changes, step_s, len(after.traced.trace.steps))
        suspected += suspects.find_wait_suspects(before.traced.trace, after.traced.trace)
        suspected += find_implementation_suspects(
            before.traced.implementations,
            after.traced.implementations,
            time.changes,
            step_s,
            timed=not drift.useless,
        )
        notes += [_describe_times(before.traced, after.traced), *op_changes.list_drift_notes(drift), *time.notes]
    memory: tuple[MemoryChange, ...] = ()
    makers: tuple[MemoryChange, ...] = ()
    old, new = before.variant.memory, after.variant.memory
    if old is not None and new is not None:
        memory, makers = memory_changes.compare_by_category(old, new), memory_changes.compare_by_origin(old, new)
        suspected += suspects.find_memory_suspects(old, new, makers)
        if old.peak_phase != new.peak_phase:
            text = f"the memory peak moved from {old.peak_phase} to {new.peak_phase or 'no phase'}"
            notes.append(make_note("why.peak_moved", text, before=old.peak_phase, after=new.peak_phase))
    compiled = record_changes.compare_compilation(before, after)
    claims = record_changes.compare_claims(before.variant, after.variant)
    suspected += [*suspects.find_compile_suspects(compiled), *suspects.find_claim_suspects(claims)]
    return ChangeExplanation(
        suspects=suspects.format_suspects(suspected),
        time=time,
        memory=memory,
        memory_rows=makers,
        compiled=compiled,
        setup=record_changes.compare_setup(before.variant, after.variant),
        claims=claims,
        notes=tuple(dict.fromkeys(notes)),
    )


def check_traced_change(explained: ChangeExplanation | None, judged: Sequence[JudgedQuantity]) -> Iterator[Note]:
    """A note if traced steps changed differently from timed steps, which run without instruments."""
    time = explained.time if explained is not None else None
    timed = next((judgement for judgement in judged if judgement.quantity == "step_time"), None)
    if time is None or not time.before_step_s or timed is None or timed.low is None or timed.high is None:
        return
    traced = time.after_step_s / time.before_step_s - 1
    if not timed.low <= traced <= timed.high:
        text = (
            f"traced steps changed by {format_signed_percent(traced)}, steps without a profiler by "
            f"{format_signed_percent(timed.low)} to {format_signed_percent(timed.high)}: the trace shows which ops "
            "changed, but not their share of the step time"
        )
        yield make_note("why.traced_differently", text, traced=traced, low=timed.low, high=timed.high)


def _list_missing(side: SideAnalysis, name: str) -> Iterator[Note]:
    """Notes on a side's missing data."""
    if side.variant.status != RunStatus.OK:
        text = f"{name}: {side.variant.status}: {side.variant.reason}"
        yield make_note("why.run_ended", text, side=name, reason_id=side.variant.reason_id)
    if side.traced is None:
        yield make_note("why.no_trace", f"{name}: no trace was recorded, so ops cannot be compared", side=name)
    if side.variant.memory is None:
        text = f"{name}: no allocations were recorded, so memory use cannot be compared"
        yield make_note("why.no_memory", text, side=name)


def _describe_times(before: TracedSteps, after: TracedSteps) -> Note:
    steps = sorted({len(before.trace.steps), len(after.trace.steps)})
    count = " and ".join(map(str, steps))
    text = f"op times are medians of {count} traced steps of one process per side; call counts are exact"
    return make_note("why.traced_steps", text, steps=count)
