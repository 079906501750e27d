"""Describes suspects among the changes: exact ones first, then by share of the step or the peak."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import fsum
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.difference import ChangeRow
from perfkit.analysis.model.memory_model import MemoryAccount, MemoryGrowth
from perfkit.analysis.model.trace import RankTrace
from perfkit.check.judge.result import ClaimChange, CountChange, MemoryChange
from perfkit.check.why.op_changes import CALLS, FASTER, GONE, INPUTS, NEW, SLOWER
from perfkit.check.why.record_changes import BREAK, RECOMPILED
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_bytes, format_flops, format_seconds, format_significant

MOST_SUSPECTS = 8
_MOST_OPS = 4  # maximum ops named in one sentence
_MOST_INPUTS, _MOST_NAMES = 3, 8  # each in a sentence of its own; named where more are summed up

# Share of the peak; smaller changes are only in the tables.
_LEAST_BYTES = 0.002
# Share of the step time; smaller changes are only in the tables.
_LEAST_SHARE = 0.001
_LONGEST_REASON = 160

# Suspects at any cost: inactive techniques, graph breaks, unbounded growth.
_CLAIM, _BREAK, _GROWTH = 1e3, 1e2, 1e1


class Suspect(NamedTuple):
    """A suspect; `weight` is its share of the step or the peak, above 1 for suspects at any cost."""

    weight: float
    text: str


def format_suspects(suspects: Sequence[Suspect]) -> tuple[str, ...]:
    """The sentences by weight."""
    ordered = sorted(suspects, key=lambda suspect: -abs(suspect.weight))
    return tuple(suspect.text for suspect in ordered[:MOST_SUSPECTS])


def find_claim_suspects(changes: Sequence[ClaimChange]) -> Iterator[Suspect]:
    """Techniques that no longer take effect."""
    for change in changes:
        if change.before and change.after is False:
            text = f"{change.technique} no longer takes effect ({change.statement}): {change.evidence}"
            yield Suspect(_CLAIM, text)


def find_compile_suspects(changes: Sequence[CountChange]) -> Iterator[Suspect]:
    """Graph breaks and recompilations."""
    for change in changes:
        more = change.after - change.before
        if change.kind in (BREAK, RECOMPILED) and more:
            word = "more" if more > 0 else "fewer"
            what = " ".join(change.reason.split())
            reason = f": {what[:_LONGEST_REASON]}{'...' if len(what) > _LONGEST_REASON else ''}" if what else ""
            plural = "" if abs(more) == 1 else "s"
            # A break often causes the recompilations.
            weight = _BREAK if change.kind == BREAK else _BREAK / 2
            yield Suspect(weight, f"{abs(more)} {word} {change.kind}{plural}{reason}")


def find_call_suspects(changes: Sequence[ChangeRow], step_s: float) -> Iterator[Suspect]:
    """Ops that are called more or less often, grouped by module."""
    names: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in changes:
        names[row.name][0] += row.before_calls or 0.0
        names[row.name][1] += row.after_calls or 0.0
    # Relative to the ops' own time, since an interrupted step is longer.
    least_s = _LEAST_SHARE * fsum(row.before_s or 0.0 for row in changes)
    modules: dict[str, list[ChangeRow]] = defaultdict(list)
    for row in changes:
        # Calls that only changed shapes, in the same number, do not count.
        if row.evidence in CALLS and names[row.name][0] != names[row.name][1]:
            modules[row.module].append(row)
    for module, rows in modules.items():
        cost = {row.name: 0.0 for row in rows}
        for row in rows:
            cost[row.name] += _estimate_call_seconds(row)
        total = fsum(cost.values())
        ranked = sorted(cost, key=lambda name: (-abs(cost[name]), name))
        named = "; ".join(_describe_calls(name, *names[name]) for name in ranked[:_MOST_OPS])
        more_ops = f"; and {len(ranked) - _MOST_OPS} more ops" if len(ranked) > _MOST_OPS else ""
        # Gains and losses must not cancel: replacing an op by another is a change.
        if fsum(map(abs, cost.values())) < least_s:
            continue
        phases = [phase for phase in dict.fromkeys(row.phase for row in rows) if phase]
        place = module or " and ".join(phases)
        prefix = f"in {place}: " if place else ""
        yield Suspect(
            _compute_share(total, step_s),
            f"{prefix}{named}{more_ops}; {_format_cost(total, step_s)}{_format_flops_change(rows)}",
        )


def _describe_calls(name: str, before: float, after: float) -> str:
    if not before:
        return f"{name} is new ({_format_calls(after)} per step)"
    if not after:
        return f"{name} is gone (was {_format_calls(before)} per step)"
    more = "more" if after > before else "less"
    return f"{name} is called {more} often ({_format_count(before)} -> {_format_calls(after)} per step)"


def _estimate_call_seconds(row: ChangeRow) -> float:
    """Time of new or removed calls, at the mean time per call of both sides."""
    if row.evidence == NEW:
        return row.after_s or 0.0
    if row.evidence == GONE:
        return -(row.before_s or 0.0)
    before, after = row.before_calls or 0.0, row.after_calls or 0.0
    return (after - before) * ((row.before_s or 0.0) + (row.after_s or 0.0)) / (before + after)


def _format_cost(change_s: float, step_s: float) -> str:
    word = "more" if change_s >= 0 else "less"
    share = f" ({abs(change_s) / step_s * 100:.2g} % of it)" if step_s > 0 else ""
    return f"{format_seconds(abs(change_s))} {word} in a traced step{share}"


def _format_flops_change(rows: Sequence[ChangeRow]) -> str:
    change = fsum((row.after_flops or 0.0) - (row.before_flops or 0.0) for row in rows)
    if not change:
        return ""
    return f", {format_flops(abs(change))} {'more' if change > 0 else 'less'}"


def find_input_suspects(changes: Sequence[ChangeRow], step_s: float) -> Iterator[Suspect]:
    """Ops with the same number of calls, but other shapes or dtypes."""
    rows = [row for row in changes if row.evidence == INPUTS]
    if len(rows) > _MOST_INPUTS:
        total = fsum((row.after_s or 0.0) - (row.before_s or 0.0) for row in rows)
        names = list(dict.fromkeys(row.name for row in rows))
        named = list_first(names, _MOST_NAMES)
        first = max(rows, key=lambda row: abs((row.after_s or 0.0) - (row.before_s or 0.0)))
        text = f"{len(rows)} ops have different inputs ({named}), such as {first.shapes}"
        yield Suspect(_compute_share(total, step_s), f"{text}; {_format_cost(total, step_s)}")
        return
    for row in rows:
        total = (row.after_s or 0.0) - (row.before_s or 0.0)
        if abs(total) >= _LEAST_SHARE * step_s:
            text = f"{_format_op(row)} has different inputs: {row.shapes}; {_format_cost(total, step_s)}"
            yield Suspect(_compute_share(total, step_s), text)


def find_time_suspects(changes: Sequence[ChangeRow], step_s: float, steps: int) -> Iterator[Suspect]:
    """Ops with unchanged calls that take longer or shorter in every step: less certain than counts."""
    for row in changes:
        if row.evidence not in (SLOWER, FASTER) or row.before_s is None or row.after_s is None:
            continue
        text = (
            f"{_format_op(row)} takes {format_seconds(row.after_s)} per step, was {format_seconds(row.before_s)}, "
            f"with the same {_format_calls(row.after_calls or 0.0)}, in each of {steps} traced steps"
        )
        yield Suspect(_compute_share(row.after_s - row.before_s, step_s) / 2, text)


def find_wait_suspects(before: RankTrace, after: RankTrace) -> Iterator[Suspect]:
    """Calls that make the CPU wait for the device, by op."""
    was, now = (_count_waits(trace) for trace in (before, after))
    for key, calls in now.items():
        if calls > was.get(key, 0.0):
            name, op = key
            within = f" in {op}" if op else ""
            change = f"{_format_count(was.get(key, 0.0))} -> {_format_calls(calls)}"
            yield Suspect(_BREAK / 4, f"the CPU waits for the device more often: {name}{within}, {change} per step")


def _count_waits(trace: RankTrace) -> dict[tuple[str, str], float]:
    waits: dict[tuple[str, str], float] = defaultdict(float)
    for call in trace.host_calls:
        if call.kind == "wait":
            waits[call.name, call.op] += call.calls
    return waits


def find_memory_suspects(
    before: MemoryAccount, after: MemoryAccount, makers: Sequence[MemoryChange]
) -> Iterator[Suspect]:
    """Causes of a changed peak, by category and module; none if the peak is the same."""
    yield from find_growth_suspects(before.growth, after.growth)
    least = _LEAST_BYTES * before.peak_bytes
    if abs(after.peak_bytes - before.peak_bytes) < least:
        return
    by_category: dict[str, list[MemoryChange]] = defaultdict(list)
    for change in makers:
        by_category[change.category].append(change)
    for category, changes in by_category.items():
        grown = _sum_growth(changes)
        if abs(grown) >= least:
            yield from _find_category_suspects(category, _merge_moved_ops(changes), grown, before.peak_bytes)


def _find_category_suspects(category: str, changes: Sequence[MemoryChange], grown: int, peak: int) -> Iterator[Suspect]:
    """Changes by module in the direction of the category's change; compensated changes are ignored."""
    places: dict[str, list[MemoryChange]] = defaultdict(list)
    for change in changes:
        if _sum_growth([change]) * grown > 0:
            places[change.module].append(change)
    for module, parts in places.items():
        total = _sum_growth(parts)
        if abs(total) < _LEAST_BYTES * peak:
            continue
        amount = f"{format_bytes(abs(total))} {'more' if total > 0 else 'less'} at the peak ({category})"
        makers = sorted((part for part in parts if part.op), key=lambda part: -abs(_sum_growth([part])))[:_MOST_OPS]
        origins = ", ".join(f"{part.op} ({format_bytes(part.before)} -> {format_bytes(part.after)})" for part in makers)
        who = f"{module} holds " if module else ""
        yield Suspect(_compute_share(total, peak), f"{who}{amount}" + (f", allocated by {origins}" if origins else ""))


def _merge_moved_ops(changes: Sequence[MemoryChange]) -> list[MemoryChange]:
    """The changes, those of an op that only moved between modules as one: compiled code has other modules."""
    ops: dict[str, list[MemoryChange]] = defaultdict(list)
    for change in changes:
        ops[change.op].append(change)
    merged = []
    for parts in ops.values():
        if len({_sum_growth([part]) > 0 for part in parts}) == 1:
            merged += parts
        else:
            whole = replace(
                parts[0], module="", before=sum(part.before for part in parts), after=sum(part.after for part in parts)
            )
            merged.append(whole)
    return merged


def _sum_growth(changes: Sequence[MemoryChange]) -> int:
    return sum(change.after - change.before for change in changes)


def find_growth_suspects(before: Sequence[MemoryGrowth], after: Sequence[MemoryGrowth]) -> Iterator[Suspect]:
    """Memory that every step leaks."""
    known_origins = {(growth.category, growth.module, growth.op) for growth in before}
    for growth in after:
        if (growth.category, growth.module, growth.op) not in known_origins:
            maker = f", allocated by {growth.op}" if growth.op else ""
            place = f" in {growth.module}" if growth.module else ""
            text = f"each step leaks {format_bytes(growth.bytes_per_step)} of {growth.category}{maker}{place}"
            yield Suspect(_GROWTH, f"{text}: memory grows every step")


def _format_op(row: ChangeRow) -> str:
    return f"{row.name} in {row.module}" if row.module else f"{row.name} ({row.phase})" if row.phase else row.name


def _compute_share(change: float, whole: float) -> float:
    return change / whole if whole > 0 else 0.0


def _format_calls(calls: float) -> str:
    return f"{_format_count(calls)} call" + ("" if calls == 1 else "s")


def _format_count(calls: float) -> str:
    return f"{calls:,.0f}" if calls == round(calls) else format_significant(calls)
