"""Devices of a trace: streams, overlap, launches, blocking calls and gaps, replayed graphs, and sampled counters."""

from perfkit.analysis.model.step import TimeShare
from perfkit.core.record.quantity import Quantity
from perfkit.core.spec import Struct


class ReplayedGraph(Struct):
    """A graph, launched `launches` times. Seconds cover all launches in the whole trace.

    `nodes` are the kernels, copies and fills of one launch. `joined_nodes` of them have the op of the recorded
    `capture`. `basis` is the evidence for this capture; else `reason` says why it is unknown.
    """

    nodes: int
    launches: int
    seconds: float
    joined_nodes: int = 0
    capture: str = ""
    basis: str = ""
    reason: str = ""


class QueuedIdle(Struct):
    """Idle time of a device with work queued, per step, by what came next.

    `launching_s` is the time from a launch to its kernel's start on an idle device, in `launching_gaps`. `between_s` is
    the time between kernels already launched, in `between_gaps` of at most ten microseconds. `long_s` is the time of
    longer gaps, in `long_gaps`. `same_stream_s` of it is before kernels of the stream that ran last. `longest_s` is the
    longest gap, before the kernel `longest_before`.
    """

    launching_s: float
    launching_gaps: float
    between_s: float
    between_gaps: float
    long_s: float
    long_gaps: float
    same_stream_s: float
    longest_s: float
    longest_before: str


class Launches(Struct):
    """Launch statistics of the device, of several of the critical one; None where the trace has none.

    `delay_s` is the median time from a launch to the start of its kernel. `queue_depth` is the median number of kernels
    launched and not yet started, without the one that starts. `starved_s` is device idle time per step with nothing
    queued. `late_s` of it is in gaps so short that the CPU was launching meanwhile; the rest belongs to CPU calls, data
    fetching, and `RankTrace.gaps`. `queued_idle` is the idle time with work queued. `sync_calls` calls per step made
    the CPU wait for the device. `sync_s` is the time in them. `short_*` are kernels shorter than `short_below_s`, with
    the idle gaps before them. `graph_launches` launch a whole CUDA graph each. `note` says why something is None.
    `idle_bound` is `at most` where kernels were lost, which makes the device seem idle.
    """

    kernels: float
    delay_s: float | None
    queue_depth: float | None
    idle_s: float
    starved_s: float | None
    sync_calls: float
    sync_s: float
    short_below_s: float
    short_kernels: float
    short_s: float
    short_gap_s: float
    delay_p90_s: float | None = None
    graph_launches: float = 0.0
    note: str = ""
    idle_bound: str = ""
    late_s: float | None = None
    queued_idle: QueuedIdle | None = None


class StreamQueue(Struct):
    """Queue length of a stream: kernels, copies and fills launched and not yet finished, over the time of the steps.

    `mean`, `median` and `most` are by time. `empty_share` is the share of the time with none. `launched` pieces of work
    count, in the whole trace; `without_launch` do not, since their launch was not recorded.
    """

    device: int
    stream: str
    launched: int
    without_launch: int
    mean: float
    median: float
    most: float
    empty_share: float


class QueueSeries(Struct):
    """Queue length of all streams together over the time of the steps, in equal parts of `interval_s`.

    The first begins at `begin_s` from the first event of the trace. Of each part the `mean` by time and the `most`.
    """

    begin_s: float
    interval_s: float
    mean: tuple[float, ...]
    most: tuple[int, ...]


class DeviceLoad(Struct):
    """How far the kernels of the steps fill the device's streaming multiprocessors: estimates from their launches.

    `sm_efficiency` is the mean over the time of the steps, in which idle time counts as 0. `occupancy` is the mean over
    the kernels' time. Both are of kernels for which they are known, `known_share` and `occupancy_share` of the kernels'
    time; None where these are 0.
    """

    sm_efficiency: float | None
    occupancy: float | None
    known_share: float
    occupancy_share: float


class HostCallRow(Struct):
    """Equal CPU calls that can leave the device without work, per step.

    `kind` is `wait` (for the device), `allocation` (of its memory) or `data` (fetching a batch). `op` is the innermost
    op around the call, empty without one. `idle_s` is the device's idle time with nothing queued during the call,
    extended to the next launch if it follows within a millisecond; for a batch, only while it is fetched. Calls do not
    share idle time. None where no device was traced.
    """

    kind: str
    name: str
    op: str
    calls: float
    seconds: float
    idle_s: float | None


class GapRow(Struct):
    """Idle time of a device with one cause (of `perfkit.analysis.model.idle`) at one place of the CPU, per step.

    The place is the CPU activity during more than half of each gap, innermost of its kind, empty where not recorded:
    Python's `frame`, `user_frame` (the innermost outside torch and Python's library), `builtin` called by the frame,
    path of the `module`, `range` of the program, `op`, and runtime `call`. `next_op` is the op of the next kernel.
    `gaps` is the number of gaps. `longest_s` is the longest one. `longest_start_s` is its start, since the first event
    of the trace. `is_named` is False for the row that merges the shorter gaps.
    """

    cause: str
    frame: str
    user_frame: str
    builtin: str
    module: str
    range: str
    op: str
    call: str
    next_op: str
    gaps: float
    seconds: float
    longest_s: float
    longest_start_s: float
    is_named: bool = True


class StreamRow(Struct):
    """One stream of a device (on a CPU: one thread). Seconds of the whole trace; `split` sums to `span_s`.

    `busy_s` is the sum of its kernels' durations: over all streams it is the trace's kernel time exactly.
    """

    device: int
    stream: str
    kernels: int
    busy_s: float
    span_s: float
    split: tuple[TimeShare, ...]


class OverlapRow(Struct):
    """Compute, communication or copies (`kind`), in seconds per step with any running.

    `alone_s` is the part with neither of the other two; `with_*` the part with each other one, None for its own kind.
    """

    kind: str
    seconds: float
    alone_s: float
    with_compute_s: float | None
    with_communication_s: float | None
    with_copies_s: float | None


class Overlap(Struct):
    """Communication and copies alongside compute, in seconds per step with any running.

    `exposed_*` is the part in which no kernel computes (`perfkit.analysis.trace.work.exposed_time`). `all_*` covers the
    whole trace, including outside steps. `pairs` has compute, communication and copies against each other.
    """

    communication_s: float
    exposed_communication_s: float
    copies_s: float
    exposed_copies_s: float
    all_communication_s: float = 0.0
    all_exposed_communication_s: float = 0.0
    all_copies_s: float = 0.0
    all_exposed_copies_s: float = 0.0
    pairs: tuple[OverlapRow, ...] = ()


class DeviceRow(Struct):
    """One device of a trace, per step.

    `number` is as recorded, -1 where it is not. `process` launched its work, empty where one process launched all.
    `critical` marks the one whose time the figures of the whole trace have: of all, it computes longest. `busy_s` is
    the time with any work running, `compute_s` with a kernel that computes. `time_split` sums to the step, `idle` (by
    cause of `perfkit.analysis.model.idle`) to `idle_s`, its idle time. `mfu` is over its own peak.
    """

    number: int
    process: str
    name: str
    critical: bool
    kernels: float
    busy_s: float
    compute_s: float
    idle_s: float
    time_split: tuple[TimeShare, ...]
    idle: tuple[TimeShare, ...]
    overlap: Overlap
    mfu: Quantity
    hardware_flops: Quantity


class CounterRow(Struct):
    """One counter of one device within the steps, or within the whole trace without steps.

    Attributes:
        name: as recorded, with its unit where it has one.
        device: the device's number; None where it is none's, or not known.
        samples: how many there are.
        rate_hz: samples per second of the trace, None for a single one.
        mean: of all samples; `low` and `high` are their 5th and 95th percentile.
        busy_mean: the mean of the samples taken while the device ran a kernel; None without any.
        series: the mean of the samples in equal parts of the time of the steps, None for parts without any; the first
            begins at `begin_s` from the first event of the trace; there are `series_hz` of them a second.
    """

    name: str
    device: int | None
    samples: int
    rate_hz: float | None
    mean: float
    low: float
    high: float
    busy_mean: float | None = None
    series: tuple[float | None, ...] = ()
    begin_s: float = 0.0
    series_hz: float = 0.0


class UnitCounters(Struct):
    """Sampled activity of a GPU's units while kernels of the steps ran: of a phase, or of the kernels of one name.

    `kind` is `phase` (`name` "" is work outside phases) or `kernel`: those of a name that are longer than two sampling
    intervals. `sm_active`, `tensor_active` and `memory_active` are mean shares of the peak, None where they were not
    sampled. `seconds` is the time of the samples per step. `measured_bytes` is what device memory moved per step, by
    the samples and the datasheet's bandwidth, None where one is unknown; `modeled_bytes` is the same by formula, None
    where a kernel's bytes are unknown.
    """

    kind: str
    name: str
    samples: int
    seconds: float
    sm_active: float | None
    tensor_active: float | None
    memory_active: float | None
    measured_bytes: float | None
    modeled_bytes: float | None
