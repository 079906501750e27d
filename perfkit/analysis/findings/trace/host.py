"""Rules about the host: whether it feeds the device, and what it waits for."""

from collections.abc import Iterator

from perfkit.analysis.findings.trace.calls import calls_of, idle_of, shown_calls
from perfkit.analysis.findings.trace.thresholds import COMMON, NOTABLE
from perfkit.analysis.findings.trace.view import CPU, IDLE, Told, TraceView
from perfkit.analysis.model.time_split import DATA, PYTHON, WAITING_FOR_CPU
from perfkit.analysis.model.trace import Launches
from perfkit.analysis.trace.host_calls import ALLOCATION, WAIT
from perfkit.units import percent, seconds

# What to do about an op that waits: the first whose name it contains.
_WAITS = (
    ("item", "keep the value on the device (loss.detach()) and read it every so many steps, not in each"),
    (
        "_local_scalar_dense",
        "keep the value on the device (loss.detach()) and read it every so many steps, not in each",
    ),
    ("is_nonzero", "decide on the device (torch.where) instead of in Python"),
    ("nonzero", "keep shapes fixed: torch.where with three arguments instead of masks and nonzero"),
    ("masked_select", "keep shapes fixed: multiply by the mask instead of selecting"),
    ("index", "index with integers of a fixed number instead of a boolean mask"),
    ("copy", "copy with non_blocking=True from pinned memory"),
    ("_to_copy", "copy with non_blocking=True from pinned memory"),
    ("unique", "keep shapes fixed: unique must know how many there are"),
)

_FEWER_LAUNCHES = (
    'Give the device more per launch: a larger batch, torch.compile(mode="reduce-overhead") or CUDA graphs '
    "(torch.cuda.make_graphed_callables); take logging and data preparation off the training loop."
)
_MORE_IN_GRAPHS = (
    "CUDA graphs are in use: capture more of the step in them, or give each more to do (a larger batch); take logging "
    "and data preparation off the training loop."
)
_FEWER_CALLS = (
    "Give each op more to do (a larger batch), or have fewer ops (torch.compile, fused and foreach optimizers)."
)


def host_bound(view: TraceView) -> Iterator[Told]:
    """The device idle with nothing queued; on a CPU, time in which no op worked."""
    launches = view.trace.launches
    idle = sum(part.seconds for part in view.trace.time_split if part.category in (PYTHON, WAITING_FOR_CPU))
    fetching = sum(part.seconds for part in view.trace.time_split if part.category == DATA)
    if launches is not None and launches.starved_s is not None:
        idle = launches.starved_s - fetching  # which is told by itself
    if view.share(idle) < COMMON:
        return
    if launches is None or view.trace.device == CPU:
        what = "Python and dispatch" if fetching else "Python, dispatch and waiting"
        title = f"{percent(view.share(idle), 0)} of the {view.whole} is {what}"
        beside = " beside fetching data" if fetching else ""
        evidence, action = f"no op works for {view.took(idle)}{beside}", _FEWER_CALLS
    else:
        title = f"The device waits for the CPU {percent(view.share(idle), 0)} of the {view.whole}"
        evidence = f"idle with nothing queued for {view.took(idle)}; {_feeding(launches)}"
        action = _MORE_IN_GRAPHS if launches.graph_launches else _FEWER_LAUNCHES
    yield view.gain(
        title,
        evidence,
        action,
        idle,
        basis="the profiler itself slows the host down, so that less is saved without it",
        scope=(IDLE,),
    )


def _feeding(launches: Launches) -> str:
    parts = [f"{launches.kernels:,.0f} kernel{'' if launches.kernels == 1 else 's'}"]
    if launches.delay_s is not None:
        parts.append(f"each {seconds(launches.delay_s)} after its launch (median)")
    return ", ".join(parts)


def waits(view: TraceView) -> Iterator[Told]:
    """Calls that let the host wait for the device, which then waits for the host."""
    rows = calls_of(view, WAIT)
    idle = idle_of(rows)
    if idle is None or view.share(idle) < NOTABLE:
        return
    advice = dict.fromkeys(text for row in rows[:5] for word, text in _WAITS if word in row.op)
    action = "; ".join(advice) or (
        "find the call in the trace and remove it from the step, such as torch.cuda.synchronize() around timers"
    )
    yield view.gain(
        f"The host waits for the device: {view.calls(sum(row.calls for row in rows))}",
        f"the device is then idle for {view.took(idle)}: {shown_calls(rows)}",
        f"{action[:1].upper()}{action[1:]}.",
        idle,
        scope=(IDLE,),
    )


def allocations(view: TraceView) -> Iterator[Told]:
    """Memory taken from the driver within a step, which the caching allocator should have done once."""
    rows = calls_of(view, ALLOCATION)
    cost = idle_of(rows)
    if cost is None or view.share(cost) < NOTABLE:
        return
    yield view.gain(
        f"Device memory is allocated: {view.calls(sum(row.calls for row in rows))}",
        f"the device is idle for {view.took(cost)} around them: {shown_calls(rows)}",
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, keep shapes the same from step to step, and leave "
        "memory free: the cache is emptied when it runs out (no torch.cuda.empty_cache() in the loop).",
        cost,
        scope=(IDLE,),
    )


def short_kernels(view: TraceView) -> Iterator[Told]:
    """Kernels so short that starting them costs as much as running them."""
    launches = view.trace.launches
    if launches is None or launches.short_kernels == 0:
        return
    # Of the idle time before them only what starting a kernel costs is theirs; the rest is the host's own.
    won = min(launches.short_gap_s, launches.short_kernels * launches.short_below_s)
    took = launches.short_s + won
    if view.share(took) < COMMON:
        return
    yield view.gain(
        f"{launches.short_kernels:,.0f} of {launches.kernels:,.0f} kernels are shorter than "
        f"{launches.short_below_s * 1e6:g} us",
        f"with what starting them costs they take {view.took(took)}: they run for {seconds(launches.short_s)}, and the "
        f"device is idle for {seconds(launches.short_gap_s)} right before them",
        "Fuse them with torch.compile, or start them together with CUDA graphs; use foreach or fused optimizers.",
        won,
        basis=f"starting a kernel costs at most {launches.short_below_s * 1e6:g} us; the rest of the idle time is the "
        "host's own",
        scope=(IDLE,),
    )
