"""Launches, blocking calls and gaps of a device."""

from perfkit.spec import Struct


class QueuedIdle(Struct):
    """Idle time of a device with work queued, per step, by what came next.

    `launching_s` passed from a launch to its kernel's start on a device that had nothing to do, in `launching_gaps`.
    `between_s` lies in `between_gaps` of at most ten microseconds between kernels that were launched already. What took
    longer is `long_s` in `long_gaps`, `same_stream_s` of it before kernels of the stream that had worked last; the
    longest is `longest_s` before the kernel `longest_before`.
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
    """Launch statistics of the device; None where the trace has none.

    `delay_s` is the median time from a launch to the start of its kernel, `queue_depth` the median number of kernels
    launched and not yet started (the one that starts not counted), `starved_s` device idle time per step with nothing
    queued, of which `late_s` in gaps so short that the host was launching meanwhile (the others belong to calls of the
    host, to fetching data, and to `RankTrace.gaps`), `queued_idle` what was idle with work queued. `sync_calls` calls
    per step made the host wait for the device, with `sync_s` spent in them. `short_*` are kernels shorter than
    `short_below_s`, with the idle gaps right before them. `graph_launches` start a whole CUDA graph each. `note` says
    why something is None. `idle_bound` is `at most` where kernels were lost, which makes the device seem idle.
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

    `kind` is `wait` (for the device), `allocation` (of its memory) or `data` (fetching a batch); `op` is the innermost
    op around the call, empty where there is none. `idle_s` is the device's idle time with nothing queued from the
    call's beginning to its end and on to the next launch, if that comes within a millisecond; of a batch only while it
    is fetched. No such time is of two calls. None where no device was traced.
    """

    kind: str
    name: str
    op: str
    calls: float
    seconds: float
    idle_s: float | None


class GapRow(Struct):
    """Idle time of a device with one cause (of `perfkit.analysis.model.idle`) at one place of the CPU, per step.

    Where the host was in the way, what it was in for more than half of each piece, the innermost of its kind, empty
    where nothing was recorded: `frame` of Python, `user_frame` (the innermost that is neither torch's nor of Python's
    library), `builtin` that the frame called, path of the `module`, `range` of the program, `op`, `call` of the
    runtime. `next_op` is the op of the kernel that came next. `gaps` counts pieces; the longest lasts `longest_s`
    and begins `longest_start_s` after the first event of the trace. Not `is_named` are the shorter of very many
    together.
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
