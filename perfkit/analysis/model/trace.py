"""Results of analyzing a trace: data for renderers, exports and comparisons. Nothing here formats or draws.

Every struct is written as it is to `analysis.json`. Seconds are per step where the trace has steps, of the whole trace
where it has none (`RankTrace.steps` is empty and `step_s` is its span).
"""

from statistics import median

from perfkit.analysis.model.coverage import Coverage
from perfkit.analysis.model.fleet import GradientReductions, ParameterGathers, StageActions
from perfkit.analysis.model.launches import (
    CounterRow,
    DeviceLoad,
    DeviceRow,
    GapRow,
    HostCallRow,
    Launches,
    Overlap,
    QueueSeries,
    ReplayedGraph,
    StreamQueue,
    StreamRow,
    UnitCounters,
)
from perfkit.analysis.model.matmul_rows import AttentionRow, GemmRow
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.replay import FindingGains, ReplaySummary, SimulatedChange
from perfkit.analysis.model.step import (
    OUTSIDE,
    REST,
    DeviceClockSkew,
    FlameGraph,
    LostKernels,
    OpRow,
    OverrunningKernels,
    TimeShare,
)
from perfkit.analysis.model.time_split import COMPUTE_BOUND, LATENCY_BOUND, MEMORY_BOUND, UNPLACED
from perfkit.analysis.model.timeline import StepTimeline
from perfkit.core.note import Note
from perfkit.core.record.quantity import NOT_MEASURED, Quantity
from perfkit.core.spec import Struct
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.ceilings.ceiling import DeviceCeilings

# Dots of the roofline beyond these are too small to matter and would only make the figure large.
MOST_POINTS = 120

# Of the mean step: where the median is further from it, the mean says little of most steps.
SKEWED = 0.1


class TraceFileInfo(Struct):
    """The reading of a file. `notes` list repairs, omissions and missing parts, in words for the user.

    `is_truncated` is set where the file is damaged or ends early: figures lack the rest.
    """

    path: str
    file_bytes: int
    json_bytes: int
    events: int
    notes: tuple[Note, ...] = ()
    is_truncated: bool = False


class PrecisionFlops(Struct):
    """FLOPs of GEMMs and the like that were computed on one unit in one dtype (`matrix` `tf32`, `vector` `fp32`)."""

    unit: str
    dtype: str
    flops: float


class StepRow(Struct):
    """One step: `number` as marked; `start_s` since the first event of the trace; the split sums to `seconds`.

    `time_split` is empty for all but the slowest of more than a thousand steps. `compiling_s` is the time in which
    torch compiled or loaded kernel code; only for outlier steps.
    """

    number: int
    start_s: float
    seconds: float
    time_split: tuple[TimeShare, ...]
    compiling_s: float = 0.0


# What bounds the transfer time of a `CollectiveRow`.
SHORTEST_CALL, LAST_ARRIVAL = "shortest equal call", "from the last arrival"

# Whether the ranks of a `CollectiveRow` share a host; empty where that is not known.
ONE_HOST, SEVERAL_HOSTS = "one host", "several hosts"


class CollectiveRow(Struct):
    """Equal collectives together, per step. Bandwidths follow nccl-tests: algorithm = bytes / time, bus = that times
    the factor of the collective, comparable with the link's rate for any number of ranks; `efficiency_reason` says why
    it has no share of that. Their time is the transfer's.

    A collective transfers data only after the last rank arrived: `transfer_s` of `seconds` is at most the transfer, the
    rest is waiting. `transfer_basis` is `LAST_ARRIVAL` where other ranks' traces show it, else `SHORTEST_CALL`
    (`shortest_s`, of the whole trace): then some of it may be waiting, too. `exposed_transfer_s` is the part of
    `exposed_s` that is at most transfer. They are None where the size of the messages is unknown.

    `kind` is the backend-independent kind (`all-reduce`), "" where unknown. `requested_kind` is the program's call,
    where the backend ran another collective. `volume_bytes` are the bytes over the links of each rank, the bytes of the
    bus bandwidth; None where the size or the number of ranks is unknown.

    `seconds` are summed over calls, which may overlap, on all devices. `wall_s` is the time with any of them running on
    the critical device. `exposed_s` of it is not overlapped with compute. `of_gradients`: DDP or FSDP reduces gradients
    with them. `all_calls` and `all_s` (summed) cover the
    whole trace, including outside steps.
    """

    name: str
    group: str
    group_size: int | None
    dtype: str
    message_bytes: int | None
    calls: float
    seconds: float
    wall_s: float
    exposed_s: float
    all_calls: int
    all_s: float
    algorithm_bandwidth: float | None
    bus_bandwidth: float | None
    ceiling: float | None
    ceiling_source: str = ""
    efficiency_reason: str = ""
    kind: str = ""
    requested_kind: str = ""
    volume_bytes: float | None = None
    shortest_s: float | None = None
    transfer_s: float | None = None
    exposed_transfer_s: float | None = None
    transfer_basis: str = SHORTEST_CALL
    hosts: str = ""
    of_gradients: bool = False

    @property
    def waiting_s(self) -> float | None:
        """The least time that its calls waited for other ranks, per step."""
        return None if self.transfer_s is None else max(0.0, self.seconds - self.transfer_s)

    @property
    def exposed_waiting_s(self) -> float:
        """The least part of the exposed time that is waiting; 0 where unknown."""
        return 0.0 if self.exposed_transfer_s is None else max(0.0, self.exposed_s - self.exposed_transfer_s)

    @property
    def hidden(self) -> float | None:
        """The share of its time overlapped with compute; None where it took none within the steps."""
        return 1 - self.exposed_s / self.wall_s if self.wall_s > 0 else None


class CopyRow(Struct):
    """Equal copies together, per step. `kind` is `HtoD`, `DtoH`, `DtoD` or `PtoP`; `pageable` is None where unknown.

    `exposed_s` is that of the critical device's copies.
    """

    kind: str
    pageable: bool | None
    calls: float
    bytes: int | None
    seconds: float
    exposed_s: float
    bandwidth: float | None
    ceiling: float | None
    ceiling_source: str = ""
    efficiency_reason: str = ""


class GraphWork(Struct):
    """Ops of nodes of autograd's graph, per step: forward ops whose nodes no backward pass runs, or backward ops of
    nodes that ran before. `bytes` are those that a formula knows."""

    ops: float
    seconds: float
    bytes: float = 0.0


class Recompute(Struct):
    """Forward ops that work on data, run again within backward (activation checkpointing), per step.

    `around_s` is a CPU's time without an op where a checkpoint's hooks run: in the nodes that run ops again, and before
    forward ops.
    """

    ops: float
    seconds: float
    flops: float
    bytes: float = 0.0
    around_s: float = 0.0


class LayoutCopies(Struct):
    """Copies to another memory format within a CPU's convolutions, per step; `convolutions_s` is the time of those
    that copy, and `flops` are theirs."""

    copies: float
    seconds: float
    convolutions_s: float
    flops: float


class RankTrace(Struct):
    """One trace: one rank of a job, or one process.

    Attributes:
        label: the name in reports: `rank 3`, or the file's name.
        host: where it was recorded, empty where unknown.
        devices: a row for each device that worked, one for most traces, none for a CPU's. Of several, one is critical,
            and `device`, `ceilings`, `time_split`, `steps`, `overlap`, `launches`, `summary`, `gaps` and `host_calls`
            are its own. Rows of kernels, ops, modules, collectives and copies have the work of all, and so have
            `model_flops`, `mfu` and `hfu`, over the sum of the peaks of those that compute.
        device: `cuda`, `rocm`, `xpu`, `cpu` or another word of the trace.
        device_name: as recorded, empty if not.
        device_basis: the source of the name (the trace, the user, this machine).
        framework: a word of `perfkit.trace.frameworks`, empty if not known.
        trains: whether gradients are computed or an optimizer steps; None where the trace may show the forward part of
            a training step. `records_graph`: autograd recorded nodes for a backward pass.
        step_basis: the evidence for steps: marked, by periodicity, or none.
        outlier_steps: steps that take far longer than the others and do not recur (a first one, one that compiles),
            excluded from `steps` and from all figures per step: their work counts as outside the steps.
        unrecorded_steps: the numbers of marked steps of whose launched work less than half is recorded on the device,
            likewise excluded.
        step_s: mean of `steps`. On a device a step begins when the CPU begins it or, if later, when the kernels of the
            earlier ones end; it lasts until the next one begins.
        marked_step_s: mean of the same steps as marked on the CPU; None without a device, and where only that marks
            steps.
        kernels_per_step: kernels and copies of a device, on a CPU ops that do work themselves: the median over steps,
            over the whole trace without steps.
        span_s: from the first event to the last.
        outside_steps_s: the part of `span_s` before the first step or after the last.
        kernels, ops, modules, phases: rows ranked by potential savings (`seconds - attainable_s`). Kernel rows and op
            rows each sum to the time of all kernels; work outside every step is in rows of the phase `outside steps`.
            Work without a known op is the op `(no op recorded)`, or `aten::mm (inferred)` where equal kernels are
            known to be of that op (each kernel counts as a call there); code of torch.compile has its own name. A row
            of `modules` is a module with its submodules (`module` is its path), so that rows overlap.
        summary: the whole step and each of its phases as dots of the roofline, where they have a place there; for a
            phase `seconds` are its range, or the time with a kernel of it running.
        ceilings: the limits of the device; empty where unknown, with `notes` that say why.
        missing_device_reason: the reason that a used device has no events in the trace, empty otherwise. Ops and times
            are then those of the CPU: they do not show the speed of the work, and have no roofline.
        has_uncached_allocations: whether each tensor takes its memory from the driver, since no allocator caches it.
        unknown_work_reason: the reason that no event is known to be work, empty otherwise: no time can be saved then.
            `foreign_content`: what such a file is of (a compiler's, a browser's), where its writer is known.
        optimizers: the classes of the optimizers whose steps it shows.
        reductions, gathers: what DDP and FSDP reduce and gather; None where the trace does not show it.
        gemms, attentions: GEMMs and fused attention of the steps by the sizes of their calls, ranked by potential
            savings.
        lost_kernels: kernels launched in the steps but missing from the trace; None where unknown. Where it matters,
            figures based on kernels give the direction of their error (`bound`).
        overrunning_kernels: kernels with an impossible end, whose time is unknown; None without any.
        clock_skew: of the device's clock against the CPU's; None where kernels begin after their launch.
        graphs: the replayed graphs, the longest first.
        memory: the account of the fullest GPU whose allocations were recorded, else of the CPU; None without any.
        model_flops, hardware_flops: matrix FLOPs of a step, behind `mfu` and `hfu`; the latter also counts
            `masked_flops`, those of masked pairs that attention kernels skipped.
        flops_by_precision: `hardware_flops` by compute dtype, empty where unknown.
        matrix_unit, matrix_dtype: those of most of the matrix FLOPs, empty where unknown.
        replay: the replay error of the trace, and its critical path; None where nothing can be replayed.
        what_ifs: the gains of requested changes, over the whole trace.
        gains: the simulated gains of its findings.
        flames: its work as trees, by layer, module, Python stack and phase.
        timelines: some steps event by event, the median first; the whole trace without steps.
        stage_actions: the actions of pipeline stages in its middle step; None without marks.
        device_load: how far its kernels fill the device; None without kernels in the steps.
        queues: the queue lengths of streams, the longest on average first; empty where launches are not known.
        queue_series: the queue length of all streams together over time; None where launches are not known.
        timed_ratio: a timed step over a traced one, where steps were timed too: all seconds here but those of
            `timelines` and `stage_actions` are then of a timed step, the same part of it as of the traced one.
        counters: what was sampled of the device meanwhile, such as its utilization; empty for most traces.
        unit_counters: sampled activity of the GPU's units and memory by phase and by long kernels; empty without it.
        level_points: with counters, counted kernels by their traffic at each memory level (`l1`, `l2`, `memory`): equal
            FLOP/s at several intensities.
    """

    label: str
    file_info: TraceFileInfo
    rank: int | None
    world_size: int | None
    device: str
    device_name: str
    device_basis: str
    properties: dict[str, str]
    span_s: float
    steps: tuple[StepRow, ...]
    step_basis: str
    step_s: float
    time_split: tuple[TimeShare, ...]
    coverage: Coverage
    streams: tuple[StreamRow, ...]
    overlap: Overlap
    launches: Launches | None
    summary: tuple[OpRow, ...]
    kernels: tuple[OpRow, ...]
    ops: tuple[OpRow, ...]
    modules: tuple[OpRow, ...]
    collectives: tuple[CollectiveRow, ...] = ()
    copies: tuple[CopyRow, ...] = ()
    recompute: Recompute | None = None
    unused_graph: GraphWork | None = None
    repeated_backward: GraphWork | None = None
    layout_copies: LayoutCopies | None = None
    mfu: Quantity
    hfu: Quantity
    memory: MemoryAccount | None = None
    outside_steps_s: float = 0.0
    host: str = ""
    phases: tuple[OpRow, ...] = ()
    notes: tuple[Note, ...] = ()
    host_calls: tuple[HostCallRow, ...] = ()
    gaps: tuple[GapRow, ...] = ()
    outlier_steps: tuple[StepRow, ...] = ()
    unrecorded_steps: tuple[int, ...] = ()
    marked_step_s: float | None = None
    level_points: tuple[OpRow, ...] = ()
    counters: tuple[CounterRow, ...] = ()
    unit_counters: tuple[UnitCounters, ...] = ()
    ceilings: DeviceCeilings | None = None
    missing_device_reason: str = ""
    unknown_work_reason: str = ""
    foreign_content: str = ""
    framework: str = ""
    trains: bool | None = None
    records_graph: bool = False
    has_uncached_allocations: bool = False
    model_flops: Quantity = NOT_MEASURED
    hardware_flops: Quantity = NOT_MEASURED
    masked_flops: float = 0.0
    matrix_unit: str = ""
    matrix_dtype: str = ""
    flops_by_precision: tuple[PrecisionFlops, ...] = ()
    kernels_per_step: float = 0.0
    devices: tuple[DeviceRow, ...] = ()
    graphs: tuple[ReplayedGraph, ...] = ()
    lost_kernels: LostKernels | None = None
    overrunning_kernels: OverrunningKernels | None = None
    clock_skew: DeviceClockSkew | None = None
    gemms: tuple[GemmRow, ...] = ()
    attentions: tuple[AttentionRow, ...] = ()
    optimizers: tuple[str, ...] = ()
    replay: ReplaySummary | None = None
    what_ifs: tuple[SimulatedChange, ...] = ()
    gains: FindingGains | None = None
    flames: tuple[FlameGraph, ...] = ()
    timelines: tuple[StepTimeline, ...] = ()
    stage_actions: StageActions | None = None
    device_load: DeviceLoad | None = None
    queues: tuple[StreamQueue, ...] = ()
    queue_series: QueueSeries | None = None
    reductions: GradientReductions | None = None
    gathers: ParameterGathers | None = None
    timed_ratio: float | None = None

    @property
    def is_work_known(self) -> bool:
        """True if the trace shows the work that its time was spent on."""
        return not self.missing_device_reason and not self.unknown_work_reason

    @property
    def device_memory(self) -> MemoryAccount | None:
        """The account of the device; None where only the CPU's allocations beside it were recorded."""
        others = self.memory is not None and is_cpu(self.memory.device) and not is_cpu(self.device)
        return None if others else self.memory

    @property
    def median_step_s(self) -> float | None:
        """The median step; None where no steps were found."""
        return median(step.seconds for step in self.steps) if self.steps else None

    @property
    def typical_step_s(self) -> float:
        """The median step where it differs from the mean by more than a tenth, else the mean."""
        middle = self.median_step_s
        return self.step_s if middle is None or abs(self.step_s - middle) <= SKEWED * self.step_s else middle

    @property
    def modeled_share(self) -> float | None:
        """The share of working time with a cost and a ceiling; None where nothing worked."""
        seconds = {part.category: part.seconds for part in self.time_split}
        modeled = sum(seconds.get(category, 0.0) for category in (COMPUTE_BOUND, MEMORY_BOUND, LATENCY_BOUND))
        working = modeled + sum(seconds.get(category, 0.0) for category in UNPLACED)
        return modeled / working if working > 0 else None

    @property
    def points(self) -> tuple[OpRow, ...]:
        """The dots of its roofline: the whole and its phases, and the longest ops and kernels that have a place."""
        if self.missing_device_reason:
            return ()
        kernels = () if is_cpu(self.device) else _select_dots(self.kernels, self.device_name)
        return (*self.summary, *_select_dots(self.ops, self.device_name), *kernels)


def _select_dots(rows: tuple[OpRow, ...], device: str) -> list[OpRow]:
    """The longest rows of work within steps that have a place on two log axes, under the roofs of this device."""
    placed = (
        row
        for row in rows
        if row.flops_per_s and row.unit and row.phase != OUTSIDE and row.kind != REST and row.device in ("", device)
    )
    return sorted(placed, key=lambda row: -row.seconds)[:MOST_POINTS]
