"""Compares two traces op by op: slower, faster, new and removed ops."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import fsum

from msgspec.structs import replace

from perfkit.analysis.difference.compiled_pairs import is_compiled, merge_compiled_pairs
from perfkit.analysis.difference.groups import group_changes
from perfkit.analysis.difference.op_pair import COMPILED, OpPair, get_input_shapes
from perfkit.analysis.model.difference import ChangeRow, TraceDifference
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.work.inferred_calls import INFERRED
from perfkit.analysis.trace.work.roofline_groups import NO_OP
from perfkit.core.note import Note, make_note
from perfkit.core.units import format_percent

# Rows beyond these have changed least; their time is in the rest.
MOST_CHANGES = 1000

# Ops that match only without their shapes make two traces hard to compare if they are more than this share of the time.
_OTHER_SHAPES = 0.05

# Matrix products are in other dtypes if more than this share of their FLOPs is.
_OTHER_DTYPES = 0.1

_DTYPE = re.compile(r"\S+?(?=\[)")  # before the sizes of a tensor

COMPILED_CODE = "compiled code"

_Key = tuple[str, ...]
# The strictest first. Modules may be renamed (by compiling, by wrapping) and shapes change with the batch.
_LEVELS: tuple[Callable[[OpRow], _Key], ...] = (
    lambda row: (row.name, row.phase, row.module, get_input_shapes(row)),
    lambda row: (row.name, row.phase, row.module),
    lambda row: (row.name, row.phase),
)


def compare_traces(after: RankTrace, before: RankTrace) -> TraceDifference:
    """Compare the ops of two traces, per step.

    Ops are matched by name, phase, module and shapes; those left over by name, phase and module; then by name and
    phase. What torch.compile made stands against the ops that it replaced. Rows and rests sum to the time of all ops
    on each side.
    """
    pairs = sorted(merge_compiled_pairs(pair_ops(before.ops, after.ops)), key=lambda pair: -abs(pair.change_s))
    shown = pairs[:MOST_CHANGES]
    return TraceDifference(
        before=before.label,
        after=after.label,
        before_step_s=before.step_s,
        after_step_s=after.step_s,
        changes=tuple(build_change_row(pair) for pair in shown),
        rest_before_s=fsum(pair.before_s for pair in pairs[MOST_CHANGES:]),
        rest_after_s=fsum(pair.after_s for pair in pairs[MOST_CHANGES:]),
        before_trace=before,
        notes=tuple(_collect_notes(after, before, pairs)),
        groups=group_changes(after, before, pairs),
    )


def drop_trace_tables(difference: TraceDifference) -> TraceDifference:
    """The trace without tables and roofs, which do not belong to a change and would fill the file."""
    before = replace(
        difference.before_trace, summary=(), kernels=(), ops=(), modules=(), phases=(), level_points=(), flames=()
    )
    return replace(difference, before_trace=replace(before, memory=None, ceilings=None, timelines=()))


def pair_ops(before: Sequence[OpRow], after: Sequence[OpRow]) -> list[OpPair]:
    """Match the same ops of two traces; `compare_traces` also matches compiled code with the ops that it replaced.

    What was inferred of kernels whose launches were not recorded has neither phase nor module: it is the same as what
    is left of the op on the other side.
    """
    pairs: list[OpPair] = []
    for level, key in enumerate(_LEVELS):
        old, new = _group_rows(before, key), _group_rows(after, key)
        common = [same for same in old if same in new]
        pairs += [OpPair(old.pop(same), new.pop(same), level) for same in common]
        before = [row for rows in old.values() for row in rows]
        after = [row for rows in new.values() for row in rows]
    pairs, before, after = _merge_inferred_ops(pairs, before, after)
    strict = _LEVELS[0]
    pairs += [OpPair(rows, (), 0) for rows in _group_rows(before, strict).values()]
    pairs += [OpPair((), rows, 0) for rows in _group_rows(after, strict).values()]
    return pairs


def _merge_inferred_ops(
    pairs: list[OpPair], before: Sequence[OpRow], after: Sequence[OpRow]
) -> tuple[list[OpPair], list[OpRow], list[OpRow]]:
    """Merge all rows of an op where more of it was inferred on one side; the remaining pairs of both sides follow.

    What was recorded on one side and inferred on the other would else be fewer calls of one op and a new one.
    """
    level, old, new = len(_LEVELS), _group_rows(before, _get_op_key), _group_rows(after, _get_op_key)
    inferred = [
        op for op in dict.fromkeys((*old, *new)) if any(map(_is_inferred, (*old.get(op, ()), *new.get(op, ()))))
    ]
    for op in inferred:
        short = [
            pair
            for pair in pairs
            if _get_op_key(pair.first) == op and _sum_calls(pair.before) != _sum_calls(pair.after)
        ]
        was = [*old.get(op, ()), *(row for pair in short for row in pair.before)]
        now = [*new.get(op, ()), *(row for pair in short for row in pair.after)]
        if was and now:
            pairs = [pair for pair in pairs if not any(pair is other for other in short)]
            pairs.append(OpPair(was, now, level))
            old.pop(op, None)
            new.pop(op, None)
    return pairs, [row for rows in old.values() for row in rows], [row for rows in new.values() for row in rows]


def _is_inferred(row: OpRow) -> bool:
    return row.name.endswith(INFERRED)


def _sum_calls(rows: Sequence[OpRow]) -> float:
    return fsum(row.calls for row in rows)


def _get_op_key(row: OpRow) -> _Key:
    return (row.name.removesuffix(INFERRED),)


def _group_rows(rows: Iterable[OpRow], key: Callable[[OpRow], _Key]) -> dict[_Key, list[OpRow]]:
    result: dict[_Key, list[OpRow]] = {}
    for row in rows:
        result.setdefault(key(row), []).append(row)
    return result


def build_change_row(pair: OpPair) -> ChangeRow:
    """Build the row of a pair: the common fields and the figures of both sides."""
    first, compiled = pair.first, pair.level == COMPILED
    both = (*pair.before, *pair.after)
    return ChangeRow(
        name=COMPILED_CODE
        if compiled
        else _get_op_key(first)[0]
        if len({row.name for row in both}) > 1
        else first.name,
        module=_format_both_sides(pair, lambda row: row.module),
        phase=first.phase if not compiled or len({row.phase for row in both if row.phase}) == 1 else "",
        shapes="" if compiled else _format_both_sides(pair, get_input_shapes),
        compiled_names=_list_names(row for row in both if is_compiled(row.name)) if compiled else (),
        replaced_ops=_list_names(row for row in both if not is_compiled(row.name)) if compiled else (),
        before_calls=_sum_values(pair.before, lambda row: row.calls),
        after_calls=_sum_values(pair.after, lambda row: row.calls),
        before_s=_sum_values(pair.before, lambda row: row.seconds),
        after_s=_sum_values(pair.after, lambda row: row.seconds),
        before_flops=_sum_values(pair.before, lambda row: row.flops),
        after_flops=_sum_values(pair.after, lambda row: row.flops),
        before_bytes=_sum_values(pair.before, lambda row: row.bytes),
        after_bytes=_sum_values(pair.after, lambda row: row.bytes),
    )


def _list_names(rows: Iterable[OpRow]) -> tuple[str, ...]:
    """The distinct names, the longest ops first."""
    return tuple(dict.fromkeys(row.name for row in sorted(rows, key=lambda row: -row.seconds)))


def _sum_values(rows: Sequence[OpRow], value: Callable[[OpRow], float | None]) -> float | None:
    """The sum; None without rows, or with an unknown value."""
    values = [value(row) for row in rows]
    known = [amount for amount in values if amount is not None]
    return fsum(known) if values and len(known) == len(values) else None


def _format_both_sides(pair: OpPair, value: Callable[[OpRow], str]) -> str:
    """The common value of both sides, else `before -> after`."""
    sides = [_format_distinct(rows, value) for rows in (pair.before, pair.after) if rows]
    return sides[0] if len(set(sides)) == 1 else " -> ".join(side or "(none)" for side in sides)


def _format_distinct(rows: Sequence[OpRow], value: Callable[[OpRow], str]) -> str:
    distinct = list(dict.fromkeys(value(row) for row in rows))
    return distinct[0] if len(distinct) == 1 else f"{len(distinct)} different"


def _collect_notes(after: RankTrace, before: RankTrace, pairs: Sequence[OpPair]) -> Iterator[Note]:
    for id, what, new, old in (
        ("difference.devices", "devices", after.device_name or after.device, before.device_name or before.device),
        ("difference.world_sizes", "numbers of ranks", after.world_size, before.world_size),
        ("difference.ranks", "ranks", after.rank, before.rank),
        ("difference.steps", "numbers of traced steps", len(after.steps) or None, len(before.steps) or None),
    ):
        if new != old:
            text = f"different {what}: {_format_value(new)} vs {_format_value(old)} before"
            yield make_note(id, text, before=_format_value(old), after=_format_value(new))
    now_in, then_in = _get_dtype_shares(after), _get_dtype_shares(before)
    moved = fsum(abs(now_in.get(dtype, 0.0) - then_in.get(dtype, 0.0)) for dtype in {*now_in, *then_in}) / 2
    other_dtypes = bool(now_in and then_in) and moved > _OTHER_DTYPES
    if other_dtypes:
        text = f"different dtypes: GEMMs in {_format_dtype_shares(now_in)} vs {_format_dtype_shares(then_in)} before"
        yield make_note("difference.dtypes", text, share=moved)
    if bool(after.steps) != bool(before.steps):
        yield make_note(
            "difference.one_has_steps", "only one trace has steps; figures of the other cover its whole length"
        )
    if not after.ops or not before.ops:
        yield make_note("difference.no_ops", "one trace has no ops to compare")
    now, then = _compute_unlinked_share(after.ops), _compute_unlinked_share(before.ops)
    if abs(now - then) > _OTHER_SHAPES:
        text = (
            f"{format_percent(now)} of the time has no recorded op, {format_percent(then)} before: new and removed "
            "ops may be mismatches"
        )
        yield make_note("difference.unlinked", text, before=then, after=now)
    total = fsum(pair.after_s for pair in pairs)
    unlike = [p for p in pairs if p.level != COMPILED and p.before and p.after and _has_changed_shapes(p)]
    retyped = fsum(pair.after_s for pair in unlike if not _has_changed_shapes(pair, _DTYPE))
    other = fsum(pair.after_s for pair in unlike if _has_changed_shapes(pair, _DTYPE))
    if total > 0 and other > _OTHER_SHAPES * total:
        text = f"ops with {format_percent(other / total)} of the time changed shapes: the work differs"
        yield make_note("difference.shapes", text, share=other / total)
    if total > 0 and retyped > _OTHER_SHAPES * total and not other_dtypes:
        text = f"ops with {format_percent(retyped / total)} of the time changed dtypes"
        yield make_note("difference.op_dtypes", text, share=retyped / total)


def _get_dtype_shares(trace: RankTrace) -> dict[str, float]:
    """The share of the FLOPs of matrix products by the dtype that they were computed in; empty where not known."""
    total = fsum(part.flops for part in trace.flops_by_precision)
    shares: dict[str, float] = {}
    for part in trace.flops_by_precision:
        shares[part.dtype] = shares.get(part.dtype, 0.0) + part.flops / total
    return shares


def _format_dtype_shares(shares: dict[str, float]) -> str:
    return ", ".join(
        f"{format_percent(share, 0)} {dtype}" for dtype, share in sorted(shares.items(), key=lambda item: -item[1])
    )


def _compute_unlinked_share(ops: Sequence[OpRow]) -> float:
    """The share of time without a known launching op."""
    total = fsum(row.seconds for row in ops)
    return fsum(row.seconds for row in ops if row.name == NO_OP) / total if total else 0.0


def _has_changed_shapes(pair: OpPair, without: re.Pattern[str] | None = None) -> bool:
    def said(rows: Sequence[OpRow]) -> set[str]:
        return {get_input_shapes(row) if without is None else without.sub("", get_input_shapes(row)) for row in rows}

    return said(pair.before) != said(pair.after)


def _format_value(value: object) -> str:
    return "unknown" if value is None or value == "" else str(value)
