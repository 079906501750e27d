"""Launches, blocking calls and gaps of a device, and the graphs that it replayed."""

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
