"""Rules about the host: whether it feeds the device, and what it waits for."""

from collections.abc import Iterator, Sequence

from perfkit.analysis.findings.trace.change import SHORT, leave_out
from perfkit.analysis.findings.trace.host_calls import format_calls, format_count, select_calls, sum_idle_s
from perfkit.analysis.findings.trace.program_lines import name_functions, name_python_lines
from perfkit.analysis.findings.trace.thresholds import COMMON, NOTABLE
from perfkit.analysis.findings.trace.trace_view import (
    ALLOCATIONS,
    CPU,
    GAPS,
    LATE,
    QUEUED,
    WAITS,
    RuleResult,
    TraceView,
)
from perfkit.analysis.model.idle import ALLOCATION as CAUSED_BY_ALLOCATION
from perfkit.analysis.model.idle import BETWEEN, ELSEWHERE, PEERS, STARTING, SYNC
from perfkit.analysis.model.idle import LATE as CAUSED_LATE
from perfkit.analysis.model.launches import GapRow, Launches
from perfkit.analysis.model.time_split import DATA, PYTHON
from perfkit.analysis.trace.host_calls import ALLOCATION, WAIT
from perfkit.analysis.trace.idle_gaps import format_place
from perfkit.units import format_percent, format_seconds

# Of the idle time of all calls that wait: those below it have no advice of their own.
_COSTLY = 0.1
# Of the longest gaps, and of the calls that cost most.
_TOLD_GAPS, _TOLD_CALLS = 3, 5

# The cause of an op that waits, and what to do about it: the first whose name it contains.
_ITEM = "keep the value on the device (loss.detach()) and read it every so many steps, not in each"
_COPY = "copy with non_blocking=True from pinned memory"
_WAITS = (
    ("item", "item", _ITEM),
    ("_local_scalar_dense", "item", _ITEM),
    ("is_nonzero", "item", "decide on the device (torch.where) instead of in Python"),
    (
        "nonzero",
        "data_dependent_shape",
        "keep shapes fixed: torch.where with three arguments instead of masks and nonzero",
    ),
    (
        "masked_select",
        "data_dependent_shape",
        "keep shapes fixed: multiply by the mask instead of selecting",
    ),
    ("index", "data_dependent_shape", "index with integers of a fixed number instead of a boolean mask"),
    ("copy", "copy", _COPY),
    ("_to_copy", "copy", _COPY),
    ("unique", "data_dependent_shape", "keep shapes fixed: unique must know how many there are"),
)

_FEWER_LAUNCHES = (
    'Give the device more per launch: a larger batch, torch.compile(mode="reduce-overhead") or CUDA graphs '
    "(torch.cuda.make_graphed_callables)."
)
_FEWER_LAUNCHES_WITHOUT_GRAPHS = "Give the device more per launch: a larger batch, torch.compile, foreach or fused ops."
_MORE_IN_GRAPHS = "CUDA graphs are in use: capture more of the step in them, or give each more to do (a larger batch)."
_TOGETHER = ", or start them together with CUDA graphs"
_MEANWHILE = (
    "Do this while the device works: launch the next work first, hand it to another thread or to the workers of the "
    "DataLoader, or do it once before the loop."
)
_IN_OPS = (
    "Ops that launch nothing for so long load code or libraries (at their first call), wait for memory or a lock, or "
    "go through lists of many tensors: record after more warm-up steps; if they stay, with_stack=True tells where they "
    "are called."
)
_BALANCE = (
    "The host is in a collective until the last rank has come: give every rank equal work, or start collectives sooner "
    "(async_op=True) and wait when the result is needed."
)
_RECORD_STACKS = "Record again with with_stack=True: the trace then tells what the host did."
_FEWER_CALLS = (
    "Give each op more to do (a larger batch), or have fewer ops (torch.compile, fused and foreach optimizers)."
)


def find_host_bound(view: TraceView) -> Iterator[RuleResult]:
    """The device idle between launches that come too late; on a CPU, time in which no op worked."""
    launches = view.trace.launches
    on_cpu = launches is None or view.trace.device == CPU
    idle = sum(part.seconds for part in view.trace.time_split if part.category == PYTHON)
    fetching = sum(part.seconds for part in view.trace.time_split if part.category == DATA)
    if launches is not None and not on_cpu:
        idle = launches.late_s or 0.0  # fetching data, waiting and long gaps are told by themselves
    if view.get_share(idle) < COMMON:
        return
    if launches is None or on_cpu:
        what = "Python and dispatch" if fetching else "Python, dispatch and waiting"
        finding_id, title = "cpu.dispatch", f"{format_percent(view.get_share(idle), 0)} of the {view.whole} is {what}"
        beside = " beside fetching data" if fetching else ""
        nothing = f"no op works, or none with enough to do, for {view.show_time(idle)}"
        evidence, action = f"{nothing}{beside}{name_python_lines(view.loop)}", _FEWER_CALLS
    else:
        finding_id = "launch.cpu_bound"
        title = f"The device waits for the CPU {format_percent(view.get_share(idle), 0)} of the {view.whole}"
        late = name_functions(_select_gaps(view, CAUSED_LATE))
        fed = f"{_describe_launches(launches)}{late or name_python_lines(view.loop)}"
        evidence = f"idle between launches, with nothing queued, for {view.show_time(idle)}; {fed}"
        without = _FEWER_LAUNCHES if view.torch_device == "cuda" else _FEWER_LAUNCHES_WITHOUT_GRAPHS
        action = _MORE_IN_GRAPHS if launches.graph_launches else without
    yield view.build_gain(
        finding_id,
        title,
        evidence,
        action,
        idle,
        basis="the profiler itself slows the host down, so that less is saved without it",
        scope=(LATE,),
        change=leave_out(LATE),
        idle=() if launches is None or on_cpu else (CAUSED_LATE,),
        figures={"idle_s": idle, "share": view.get_share(idle)},
    )


def _select_gaps(view: TraceView, *causes: str) -> list[GapRow]:
    return [row for row in view.trace.gaps if row.cause in causes]


def _describe_launches(launches: Launches) -> str:
    parts = [f"{format_count(launches.kernels)} kernel{'' if launches.kernels == 1 else 's'}"]
    if launches.delay_s is not None:
        parts.append(f"each {format_seconds(launches.delay_s)} after its launch (median)")
    return ", ".join(parts)


def find_synchronization(view: TraceView) -> Iterator[RuleResult]:
    """Calls that let the host wait for the device, which then waits for the host."""
    rows = select_calls(view, WAIT)
    idle = sum_idle_s(rows)
    if idle is None or view.get_share(idle) < NOTABLE:
        return
    remove = (
        "find the call in the trace and remove it from the step, such as "
        f"torch.{view.torch_device}.synchronize() around timers"
    )
    # Of those that cost most of it.
    costly = [row for row in rows[:_TOLD_CALLS] if (row.idle_s or 0.0) >= _COSTLY * idle] or rows[:1]
    advice = [[text for word, _, text in _WAITS if word in row.op] or [remove] for row in costly]
    cause = next((cause for word, cause, _ in _WAITS if word in costly[0].op), "other")
    action = "; ".join(dict.fromkeys(text for texts in advice for text in texts))
    yield view.build_gain(
        f"sync.{cause}",
        f"The host waits for the device: {view.format_calls(sum(row.calls for row in rows))}",
        f"the device is then idle for {view.show_time(idle)}: "
        f"{format_calls(rows)}{name_functions(_select_gaps(view, SYNC))}",
        f"{action[:1].upper()}{action[1:]}.",
        idle,
        scope=(WAITS,),
        change=leave_out(WAITS),
        calls=costly,
        idle=(SYNC,),
        figures={"idle_s": idle, "calls": sum(row.calls for row in rows)},
    )


def find_long_gaps(view: TraceView) -> Iterator[RuleResult]:
    """A millisecond or more without work for the device, while the host did something that launches nothing."""
    rows = _select_gaps(view, ELSEWHERE, PEERS)
    took = sum(row.seconds for row in rows)
    if view.get_share(took) < NOTABLE:
        return
    first = rows[0]
    where = format_place(first, around=True) if first.named and first.seconds > took / 2 else ""
    told = [f"{_format_gap(row)}: {_name_gap_place(row)}{_format_following(row)}" for row in rows if row.named]
    more = f" and {len(told) - _TOLD_GAPS} more places" if len(told) > _TOLD_GAPS else ""
    yield view.build_gain(
        "idle.long_gaps",
        f"The device has nothing to do for {format_percent(view.get_share(took), 0)} of the {view.whole}"
        + (f": the host is in {where}" if where else " in long gaps"),
        f"idle with nothing queued for {view.show_time(took)} in gaps of a millisecond or more: "
        f"{'; '.join(told[:_TOLD_GAPS])}{more}",
        _choose_advice(rows),
        took,
        scope=(GAPS,),
        change=leave_out(GAPS),
        idle=(row.cause for row in rows),
        figures={"idle_s": took, "share": view.get_share(took)},
    )


def _choose_advice(rows: Sequence[GapRow]) -> str:
    """By where most of the time is."""
    seconds_of = {_RECORD_STACKS: 0.0, _IN_OPS: 0.0, _MEANWHILE: 0.0, _BALANCE: 0.0}
    for row in rows:
        seconds_of[_choose_gap_advice(row)] += row.seconds
    return max(seconds_of, key=seconds_of.__getitem__)


def _choose_gap_advice(row: GapRow) -> str:
    """What to do about a long gap."""
    if row.cause == PEERS:
        return _BALANCE
    return _IN_OPS if row.op or row.call else _MEANWHILE if format_place(row, around=True) else _RECORD_STACKS


def _name_gap_place(row: GapRow) -> str:
    return format_place(row, around=True) or (row.cause if row.cause == PEERS else "no frame, op or range recorded")


def _format_gap(row: GapRow) -> str:
    return (
        format_seconds(row.longest_s) if row.gaps <= 1 else f"{row.gaps:,.3g} of up to {format_seconds(row.longest_s)}"
    )


def _format_following(row: GapRow) -> str:
    return f", before {row.following}" if row.following else ""


def find_device_allocation(view: TraceView) -> Iterator[RuleResult]:
    """Memory taken from the driver within a step, which the caching allocator should have done once."""
    rows = select_calls(view, ALLOCATION)
    cost = sum_idle_s(rows)
    if cost is None or view.get_share(cost) < NOTABLE:
        return
    yield view.build_gain(
        "sync.device_allocation",
        f"Device memory is allocated: {view.format_calls(sum(row.calls for row in rows))}",
        f"the device is idle for {view.show_time(cost)} around them: {format_calls(rows)}",
        ("Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, k" if view.torch_device == "cuda" else "K")
        + "eep shapes the same from step to step, and leave memory free: the cache is emptied when it runs out (no "
        f"torch.{view.torch_device}.empty_cache() in the loop).",
        cost,
        scope=(ALLOCATIONS,),
        change=leave_out(ALLOCATIONS),
        calls=rows[:_TOLD_CALLS],
        idle=(CAUSED_BY_ALLOCATION,),
        figures={"idle_s": cost, "calls": sum(row.calls for row in rows)},
    )


def find_short_kernels(view: TraceView) -> Iterator[RuleResult]:
    """Kernels so short that starting them costs as much as running them."""
    launches = view.trace.launches
    if launches is None or launches.short_kernels == 0:
        return
    # Of the idle time before them only what starting a kernel costs is theirs; the rest is the host's own.
    won = min(launches.short_gap_s, launches.short_kernels * launches.short_below_s)
    took = launches.short_s + won
    if view.get_share(took) < COMMON:
        return
    yield view.build_gain(
        "launch.short_kernels",
        f"{format_count(launches.short_kernels)} of {format_count(launches.kernels)} kernels are shorter than "
        f"{launches.short_below_s * 1e6:g} us",
        f"with what starting them costs they take {view.show_time(took)}: they run for {format_seconds(launches.short_s)}, "
        "and the "
        f"device is idle for {format_seconds(launches.short_gap_s)} right before them",
        f"Fuse them with torch.compile{_TOGETHER if view.torch_device == 'cuda' else ''}; use foreach or fused "
        "optimizers.",
        won,
        basis=f"starting a kernel costs at most {launches.short_below_s * 1e6:g} us; the rest of the idle time is the "
        "host's own",
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
