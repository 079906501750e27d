"""Rules about the CPU: device starvation, and CPU waits."""

from collections.abc import Iterator, Sequence

from perfkit.analysis.findings.change import SHORT, leave_out
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.idle import ALLOCATION as CAUSED_BY_ALLOCATION
from perfkit.analysis.model.idle import BETWEEN, ELSEWHERE, PEERS, STARTING, SYNC
from perfkit.analysis.model.idle import LATE as CAUSED_LATE
from perfkit.analysis.model.launches import GapRow, Launches
from perfkit.analysis.model.time_split import DATA, PYTHON
from perfkit.analysis.trace.findings.host_calls import format_calls, format_count, select_calls, sum_idle_s
from perfkit.analysis.trace.findings.program_lines import name_functions, name_python_lines
from perfkit.analysis.trace.findings.remedies import (
    BALANCE,
    FEWER_CALLS,
    FEWER_LAUNCHES,
    MEANWHILE,
    MORE_WARM_UP,
    RECORD_STACKS,
    REUSED_MEMORY,
    SHORT_KERNELS,
    UNCACHED_ALLOCATION,
    UNNEEDED_WAIT,
    Remedies,
)
from perfkit.analysis.trace.findings.trace_thresholds import COMMON, NOTABLE
from perfkit.analysis.trace.findings.trace_view import ALLOCATIONS, GAPS, LATE, QUEUED, WAITS, TraceView
from perfkit.analysis.trace.idle.host_calls import ALLOCATION, WAIT
from perfkit.analysis.trace.idle.idle_gaps import format_place
from perfkit.core.units import format_percent, format_seconds
from perfkit.devices.accelerator import is_cpu

# Of the idle time of all synchronizing calls: those below it have no advice of their own.
_COSTLY = 0.1
_NOT_CACHED = "device memory is allocated and freed for each tensor: the caching allocator is off"
# The longest gaps and the costliest calls that are named.
_NAMED_GAPS, _NAMED_CALLS = 3, 5

# The kind of synchronization and its fix, by the first of these names that the op contains.
_ITEM = "keep the value on the device (loss.detach()) and read it every N steps"
_COPY = "copy with non_blocking=True from pinned memory"
_WAITS = (
    ("item", "item", _ITEM),
    ("_local_scalar_dense", "item", _ITEM),
    ("is_nonzero", "item", "branch on the device with torch.where, not in Python"),
    (
        "nonzero",
        "data_dependent_shape",
        "keep shapes fixed with three-argument torch.where instead of masks and nonzero",
    ),
    (
        "masked_select",
        "data_dependent_shape",
        "keep shapes fixed: multiply by the mask instead of masked_select",
    ),
    ("index", "data_dependent_shape", "index with a fixed number of integers instead of a boolean mask"),
    ("copy", "copy", _COPY),
    ("_to_copy", "copy", _COPY),
    ("unique", "data_dependent_shape", "avoid torch.unique, whose output shape depends on the data"),
)

_MORE_IN_GRAPHS = "Capture more of the step in the CUDA graphs already in use, or increase the batch size."

# Why the CPU launches nothing, by the advice about it.
_EXPLANATIONS: dict[Remedies, str] = {
    MORE_WARM_UP: "likely causes: loading code at the first call, waiting for memory or a lock, or iterating over many "
    "tensors",
    BALANCE: "the CPU stays in a collective until the last rank arrives",
}


def find_host_bound(view: TraceView) -> Iterator[RuleResult]:
    """The device idles between late launches; on a CPU, time in which no op ran."""
    launches = view.trace.launches
    on_cpu = launches is None or is_cpu(view.trace.device)
    idle = sum(part.seconds for part in view.trace.time_split if part.category == PYTHON)
    fetching = sum(part.seconds for part in view.trace.time_split if part.category == DATA)
    if launches is not None and not on_cpu:
        idle = launches.late_s or 0.0  # data loading, synchronization and long gaps have rules of their own
    if view.get_share(idle) < COMMON:
        return
    if launches is None or on_cpu:
        what = "Python and dispatch overhead" if fetching else "Python, dispatch and waiting"
        finding_id, title = "cpu.dispatch", f"{what}: {format_percent(view.get_share(idle), 0)} of the {view.whole}"
        without_data = ", data loading excluded" if fetching else ""
        overhead = f"{view.show_time(idle)} with no op running, or only tiny ones{without_data}"
        evidence, action = f"{overhead}{name_python_lines(view.loop)}", view.advise(FEWER_CALLS)
    else:
        finding_id = "launch.cpu_bound"
        title = f"Device waits for CPU launches: {format_percent(view.get_share(idle), 0)} of the {view.whole}"
        late = name_functions(_select_gaps(view, CAUSED_LATE))
        lines = late or name_python_lines(view.loop)
        evidence = f"idle for {view.show_time(idle)} with nothing queued; {_describe_launches(launches)}{lines}"
        action = _MORE_IN_GRAPHS if launches.graph_launches else view.advise(FEWER_LAUNCHES)
    yield view.build_gain(
        finding_id,
        title,
        evidence,
        action,
        idle,
        basis="the profiler slows the CPU: the gain without it is smaller",
        scope=(LATE,),
        change=leave_out(LATE),
        idle=() if launches is None or on_cpu else (CAUSED_LATE,),
        figures={"idle_s": idle, "share": view.get_share(idle)},
    )


def _select_gaps(view: TraceView, *causes: str) -> list[GapRow]:
    return [row for row in view.trace.gaps if row.cause in causes]


def _describe_launches(launches: Launches) -> str:
    parts = [_format_kernels(launches)]
    if launches.delay_s is not None:
        parts.append(f"median launch delay {format_seconds(launches.delay_s)}")
    return ", ".join(parts)


def _format_kernels(launches: Launches) -> str:
    """The kernels per step; where many were lost, those that are left."""
    recorded = "recorded " if launches.idle_bound else ""
    return f"{format_count(launches.kernels)} {recorded}kernel{'' if launches.kernels == 1 else 's'}"


def find_synchronization(view: TraceView) -> Iterator[RuleResult]:
    """Calls in which the CPU waits for the device, which then waits for the CPU."""
    rows = select_calls(view, WAIT)
    idle = sum_idle_s(rows)
    if idle is None or view.get_share(idle) < NOTABLE:
        return
    remove = view.advise(UNNEEDED_WAIT)
    costly = [row for row in rows[:_NAMED_CALLS] if (row.idle_s or 0.0) >= _COSTLY * idle] or rows[:1]
    advice = [[text for word, _, text in _WAITS if word in row.op] or [remove] for row in costly]
    cause = next((cause for word, cause, _ in _WAITS if word in costly[0].op), "other")
    action = "; ".join(dict.fromkeys(text for texts in advice for text in texts))
    yield view.build_gain(
        f"sync.{cause}",
        f"Synchronization: {view.format_calls(sum(row.calls for row in rows))}",
        f"device idle for {view.show_time(idle)}: {format_calls(rows)}{name_functions(_select_gaps(view, SYNC))}",
        f"{action[:1].upper()}{action[1:]}.",
        idle,
        scope=(WAITS,),
        change=leave_out(WAITS),
        calls=costly,
        idle=(SYNC,),
        figures={"idle_s": idle, "calls": sum(row.calls for row in rows)},
    )


def find_long_gaps(view: TraceView) -> Iterator[RuleResult]:
    """Gaps of a millisecond or more without device work, while the CPU launched nothing."""
    rows = _select_gaps(view, ELSEWHERE, PEERS)
    took = sum(row.seconds for row in rows)
    if view.get_share(took) < NOTABLE:
        return
    first = rows[0]
    where = format_place(first, around=True) if first.is_named and first.seconds > took / 2 else ""
    gaps = [f"{_name_gap_place(row)}{_format_following(row)} ({_format_gap(row)})" for row in rows if row.is_named]
    more = f" and {len(gaps) - _NAMED_GAPS} more" if len(gaps) > _NAMED_GAPS else ""
    remedies = _choose_remedies(rows)
    yield view.build_gain(
        "idle.long_gaps",
        f"Long idle gaps: {format_percent(view.get_share(took), 0)} of the {view.whole}"
        + (f", CPU busy in {where}" if where else ""),
        f"nothing queued for {view.show_time(took)} in gaps of 1 ms or more: {'; '.join(gaps[:_NAMED_GAPS])}{more}",
        view.advise(remedies),
        took,
        basis=_EXPLANATIONS.get(remedies, ""),
        scope=(GAPS,),
        change=leave_out(GAPS),
        idle=(row.cause for row in rows),
        figures={"idle_s": took, "share": view.get_share(took)},
    )


def _choose_remedies(rows: Sequence[GapRow]) -> Remedies:
    """Choose the remedies by the largest part of the time."""
    seconds_of: dict[Remedies, float] = {RECORD_STACKS: 0.0, MORE_WARM_UP: 0.0, MEANWHILE: 0.0, BALANCE: 0.0}
    for row in rows:
        seconds_of[_choose_gap_remedies(row)] += row.seconds
    return max(seconds_of, key=seconds_of.__getitem__)


def _choose_gap_remedies(row: GapRow) -> Remedies:
    """Choose the remedies of a long gap."""
    if row.cause == PEERS:
        return BALANCE
    return MORE_WARM_UP if row.op or row.call else MEANWHILE if format_place(row, around=True) else RECORD_STACKS


def _name_gap_place(row: GapRow) -> str:
    return format_place(row, around=True) or (
        row.cause if row.cause == PEERS else "no frame, op or range covers most of it"
    )


def _format_gap(row: GapRow) -> str:
    """The time of a row per step, as that of the finding, and of its longest gap where that is another."""
    length, longest = format_seconds(row.seconds), format_seconds(row.longest_s)
    return length if length == longest else f"{length}, the longest {longest}"


def _format_following(row: GapRow) -> str:
    return f", before {row.next_op}" if row.next_op else ""


def find_device_allocation(view: TraceView) -> Iterator[RuleResult]:
    """Memory taken from the driver within a step, which the caching allocator should do once."""
    rows = select_calls(view, ALLOCATION)
    cost = sum_idle_s(rows)
    if cost is None or view.get_share(cost) < NOTABLE:
        return
    uncached = view.trace.has_uncached_allocations
    yield view.build_gain(
        "sync.device_allocation",
        f"Device memory allocation: {view.format_calls(sum(row.calls for row in rows))}",
        f"device idle for {view.show_time(cost)} around these calls: {format_calls(rows)}",
        view.advise(UNCACHED_ALLOCATION if uncached else REUSED_MEMORY),
        cost,
        basis=_NOT_CACHED if uncached else "the allocator empties its cache when memory runs out: leave some free",
        scope=(ALLOCATIONS,),
        change=leave_out(ALLOCATIONS),
        calls=rows[:_NAMED_CALLS],
        idle=(CAUSED_BY_ALLOCATION,),
        figures={"idle_s": cost, "calls": sum(row.calls for row in rows)},
    )


def find_graph_without_backward(view: TraceView) -> Iterator[RuleResult]:
    """Inference that records a graph for a backward pass, which keeps tensors and costs time in every op."""
    if view.trains is False and view.trace.records_graph:
        yield view.build_remark(
            "inference.records_graph",
            "note",
            "Autograd records a graph that no backward pass uses",
            "no gradient is computed, and layers are in evaluation, but ops record autograd's nodes and save tensors",
            "Run the model under torch.inference_mode().",
        )


def find_short_kernels(view: TraceView) -> Iterator[RuleResult]:
    """Kernels so short that launching them costs as much as running them."""
    launches = view.trace.launches
    if launches is None or launches.short_kernels == 0:
        return
    # Of the idle time before them only the launch cost counts; the CPU causes the rest.
    won = min(launches.short_gap_s, launches.short_kernels * launches.short_below_s)
    took = launches.short_s + won
    if view.get_share(took) < COMMON:
        return
    yield view.build_gain(
        "launch.short_kernels",
        f"{format_count(launches.short_kernels)} kernels under {launches.short_below_s * 1e6:g} us",
        f"{view.show_time(took)} with launch cost: {format_seconds(launches.short_s)} running, "
        f"{format_seconds(launches.short_gap_s)} idle before them; {_format_kernels(launches)} in all",
        view.advise(SHORT_KERNELS),
        won,
        basis=f"at most {launches.short_below_s * 1e6:g} us of launch cost per kernel; the CPU causes the rest of the "
        "idle time",
        scope=(LATE, QUEUED),
        change=leave_out(SHORT),
        idle=(CAUSED_LATE, STARTING, BETWEEN),
        figures={
            "time_s": took,
            "short_s": launches.short_s,
            "gap_s": launches.short_gap_s,
            "short_kernels": launches.short_kernels,
            "kernels": launches.kernels,
        },
    )
