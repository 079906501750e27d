"""Finds the changed ops of a step, with the kind of evidence.

Op calls and inputs are exact. Op times are not: a trace has a few steps of one process, which other load may interrupt.
So equal calls took longer only if they did in every step of one side compared with every step of the other, and by more
than the variation of identical work.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import fsum
from statistics import median

from msgspec.structs import replace

from perfkit.analysis.difference.difference import build_change_row, compare_traces, drop_trace_tables, pair_ops
from perfkit.analysis.difference.op_pair import OpPair, get_input_shapes
from perfkit.analysis.memory.layers import fold_layer_numbers
from perfkit.analysis.model.difference import ChangeRow, TraceDifference
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.work.ops_by_step import OpKey, make_op_key
from perfkit.check.why.side import OpPlace, TracedSteps
from perfkit.core.note import Note, make_note
from perfkit.core.units import format_significant

NEW, GONE, MORE, FEWER, INPUTS = "new", "gone", "more calls", "fewer calls", "other inputs"
SLOWER, FASTER, NOISE = "slower", "faster", "noise"
CALLS = (NEW, GONE, MORE, FEWER)  # evidence of changed call counts

# Maximum rows: exact changes first, then others by size.
MOST_CHANGES = 300

# Times of ops below this share of a step are ignored.
_LEAST_SHARE = 0.01
# An op's time stands out beyond this many standard deviations (1.4826 MAD) of the others'.
_DEVIATIONS = 4.0
# Assumed standard deviation of the log ratio, if there are fewer ops.
_FEW, _ASSUMED = 8, 0.25
# From here on the machine, not an op, made the difference: that is told. Where it is that much, a process is held up
# in the same op of every step often enough that times tell nothing of an op.
_DRIFT, _USELESS = 0.1, math.log(1.5)


@dataclass(frozen=True)
class Drift:
    """Time ratio of identical work between the sides: the median `ratio` and the spread of its log."""

    ratio: float
    deviation: float

    @property
    def useless(self) -> bool:
        """True if the machine changed so much that op times cannot be compared."""
        return abs(math.log(self.ratio)) > _USELESS


def find_changed_ops(
    before: TracedSteps, after: TracedSteps, allocated: tuple[Mapping[OpPlace, float], Mapping[OpPlace, float]]
) -> tuple[TraceDifference, Drift]:
    """The changed ops of a step, exact changes first, then by size.

    Args:
        before: the trace of one side.
        after: that of the other.
        allocated: allocations in each side's memory recording, which provide an op's module if the trace lacks it.
    """
    pairs = pair_ops(before.trace.ops, after.trace.ops)
    drift = _estimate_drift(pairs, before)
    judged = [
        (pair, replace(build_change_row(pair), evidence=_classify_evidence(pair, before, after, drift)))
        for pair in pairs
    ]
    judged = [(pair, _add_module(row, allocated)) for pair, row in judged]
    judged.sort(key=lambda item: (item[1].evidence == NOISE, -abs(item[0].change_s)))
    others = [pair for pair, _ in judged[MOST_CHANGES:]]
    total = compare_traces(after.trace, before.trace)
    return (
        replace(
            drop_trace_tables(total),
            changes=tuple(row for _, row in judged[:MOST_CHANGES]),
            rest_before_s=fsum(pair.before_s for pair in others),
            rest_after_s=fsum(pair.after_s for pair in others),
        ),
        drift,
    )


def list_drift_notes(drift: Drift) -> list[Note]:
    """A note if all ops take longer or shorter; else none."""
    if abs(math.log(drift.ratio)) < _DRIFT:
        return []
    rest = "; op times are unreliable and not listed" if drift.useless else ""
    text = (
        f"identical work took {format_significant(drift.ratio)} times as long in the after trace (median): "
        f"probably the machine rather than the change{rest}"
    )
    return [make_note("why.drift", text, ratio=drift.ratio)]


def _estimate_drift(pairs: Iterable[OpPair], before: TracedSteps) -> Drift:
    least = _LEAST_SHARE * before.trace.step_s
    logs = [
        math.log(pair.after_s / pair.before_s)
        for pair in pairs
        if _has_same_work(pair) and pair.before_s >= least and pair.after_s > 0
    ]
    if not logs:
        return Drift(1.0, _ASSUMED)
    middle = median(logs)
    spread = 1.4826 * median(abs(log - middle) for log in logs)
    return Drift(math.exp(middle), spread if len(logs) >= _FEW else max(spread, _ASSUMED))


def _classify_evidence(pair: OpPair, before: TracedSteps, after: TracedSteps, drift: Drift) -> str:
    if not pair.before or not pair.after:
        return GONE if pair.before else NEW
    was, now = _count_calls(pair.before), _count_calls(pair.after)
    if not math.isclose(was, now, rel_tol=1e-9):
        return MORE if now > was else FEWER
    if not _has_same_work(pair):
        return INPUTS
    if drift.useless:
        return NOISE
    old, new = _list_step_times(pair.before, before.steps_s), _list_step_times(pair.after, after.steps_s)
    excess = median(new) - drift.ratio * median(old)
    if min(len(old), len(new)) < 2 or abs(excess) < _LEAST_SHARE * before.trace.step_s or min(*old, *new) <= 0:
        return NOISE
    apart = abs(math.log(median(new) / median(old) / drift.ratio)) > _DEVIATIONS * drift.deviation
    if apart and min(new) > drift.ratio * max(old):
        return SLOWER
    return FASTER if apart and max(new) < drift.ratio * min(old) else NOISE


def _has_same_work(pair: OpPair) -> bool:
    """True if call counts and inputs are equal."""
    if (
        not pair.before
        or not pair.after
        or not math.isclose(_count_calls(pair.before), _count_calls(pair.after), rel_tol=1e-9)
    ):
        return False
    return set(map(get_input_shapes, pair.before)) == set(map(get_input_shapes, pair.after))


def _count_calls(rows: Sequence[OpRow]) -> float:
    return fsum(row.calls for row in rows)


def _list_step_times(rows: Sequence[OpRow], steps_s: Mapping[OpKey, tuple[float, ...]]) -> list[float]:
    keys = dict.fromkeys(make_op_key(row) for row in rows)
    return [fsum(step) for step in zip(*(steps_s[key] for key in keys), strict=True)]


def _add_module(row: ChangeRow, allocated: tuple[Mapping[OpPlace, float], Mapping[OpPlace, float]]) -> ChangeRow:
    """Add the module in which the memory recording saw the changed calls, or all calls if none changed.

    Empty if unknown: the op allocates nothing, or allocates in modules with different parents.
    """
    if row.module or row.evidence == NOISE:
        return row
    before, after = (_count_by_module(side, row.name, row.phase) for side in allocated)
    if row.evidence in CALLS:
        sign = 1 if row.evidence in (NEW, MORE) else -1
        changed = {module: sign * (after.get(module, 0.0) - before.get(module, 0.0)) for module in before | after}
        modules = {module for module, calls in changed.items() if calls > 0}
    else:
        modules = set(after)
    return replace(row, module=_merge_names(modules))


def _count_by_module(allocated: Mapping[OpPlace, float], op: str, phase: str) -> dict[str, float]:
    return {module: calls for (name, when, module), calls in allocated.items() if (name, when) == (op, phase)}


def _merge_names(modules: set[str]) -> str:
    """The common name of modules that differ only in numbers, else their common parent; empty for none."""
    if len(modules) <= 1:
        return next(iter(modules), "")
    names = {fold_layer_numbers(module) for module in modules}
    if len(names) == 1:
        return names.pop()
    levels = zip(*(module.split(".") for module in modules), strict=False)
    return ".".join(level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels))
