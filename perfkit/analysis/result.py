"""What an analysis yields: data for renderers, exports and checks. Nothing here formats or draws.

Every struct is written as it is to `report.json`.
"""

from perfkit.allocations import FailedRequest
from perfkit.device_calls import TOLERATED
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.record import NOT_MEASURED, Environment, Quantity, SetupCost, Status
from perfkit.spec import Struct

ANALYSIS_VERSION = 2


class Estimate(Struct, tag="estimate"):
    """A figure over processes: the median of `per_process`, with a confidence interval where it can be given."""

    value: float
    unit: str
    per_process: tuple[float, ...]
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    how: str = "measured"
    source: str = ""


class Missing(Struct, tag="missing"):
    """A figure that is not known, with the reason."""

    reason: str


class Difference(Struct):
    """A variant against its baseline: `ratio` = variant / baseline of step time, from paired processes.

    `verdict` is `faster`, `slower`, `no difference` or `inconclusive`; `detectable` is the smallest relative
    change that this number of processes could have shown, None with fewer than two.
    """

    baseline: str
    ratio: float
    low: float | None
    high: float | None
    verdict: str
    detectable: float | None
    pairs: int


class Parity(Struct):
    """Losses against the baseline's on the same data.

    `verdict` is `equal`, `within tolerance`, `differs` or `unknown`; `basis` is where the tolerance comes from,
    or the reason for `unknown`.
    """

    verdict: str
    max_relative: float | None
    tolerance: float | None
    basis: str
    steps: int


class ClaimResult(Struct):
    """A claim checked: `holds` is None where a fact is missing. `evidence` states expected and found in words."""

    technique: str
    statement: str
    holds: bool | None
    expected: float | None
    found: float | None
    evidence: str


# On which side of a figure the truth lies, where work was lost that it should count; "" where nothing was.
AT_LEAST, AT_MOST, ABOUT = "at least", "at most", "about"


class LostKernels(Struct):
    """Kernels of the steps that were launched (`launched`), and of which a trace has no time (`lost`, `share` of them).

    `without_time` of the lost ones have a record, but no time in it. `mixed_up_graphs` launches of CUDA graphs share no
    id with a kernel, though the kernels are there. `profiler` is the version of CUPTI that the trace names, with
    `known_fault` if that is known to lose records.
    """

    launched: int
    lost: int
    without_time: int
    share: float
    mixed_up_graphs: int = 0
    profiler: str = ""
    known_fault: bool = False

    @property
    def matters(self) -> bool:
        """Whether figures are bounds only."""
        return self.share > TOLERATED


class TimeShare(Struct):
    """A part of the step: seconds per step and share of it. Shares of a step sum to 1.

    `bound` is `at least`, `at most` or `about` where kernels were lost.
    """

    category: str
    seconds: float
    share: float
    bound: str = ""


class MemoryShare(Struct):
    """A category's bytes at the peak."""

    category: str
    bytes: int


class MemoryRow(Struct):
    """Bytes at the peak that one op made in one module, of one category; `blocks` is how many allocations."""

    category: str
    module: str
    op: str
    bytes: int
    blocks: int


class LiveBlock(Struct):
    """A large allocation alive at the peak. Texts are "" where they are not known.

    `name` is that of the tensor in the training state, else what the block was made by, in words. `kept_by` is the op
    in which it was freed, which is the last that held it.
    """

    bytes: int
    category: str
    name: str
    op: str = ""
    module: str = ""
    shape: str = ""
    dtype: str = ""
    line: str = ""
    phase: str = ""
    kept_by: str = ""


class Fragmentation(Struct):
    """What the caching allocator held at the peak of allocated bytes: `reserved_bytes` = allocated + free.

    `largest_free_bytes` is the largest request that the free part could have served without asking the device; None
    where it is not known in which segments all live blocks are.
    """

    reserved_bytes: int
    allocated_bytes: int
    free_bytes: int
    largest_free_bytes: int | None


class Growth(Struct):
    """Memory that each step leaves behind: bytes and blocks a step, over `steps` consecutive steps, from one origin."""

    bytes_per_step: int
    blocks_per_step: float
    steps: int
    category: str
    op: str = ""
    module: str = ""
    line: str = ""
    shape: str = ""
    dtype: str = ""


class TimelineBand(Struct):
    """A step, phase or module over the timeline (`kind`), in seconds from its beginning."""

    kind: str
    name: str
    start_s: float
    end_s: float
    depth: int = 0


class MemoryAccount(Struct):
    """The balance at the peak of one device: `categories` sum to `peak_bytes` exactly.

    `beyond` are bytes outside of the allocated ones (reserved but free, libraries, what is left unexplained), which
    with `peak_bytes` sum to `process_bytes`, what the system sees of the process; a part may be negative where pages
    were allocated and never touched. `process_bytes` is None where nobody measured it. On a GPU `device_parts` are what
    else is not free of it (other processes, what the driver reserves); with `process_bytes` they sum to `device_bytes`.

    The timeline is of the step that holds the peak where there are steps, else of all: seconds since it begins, and
    for each category the bytes at these times, thinned for drawing so that no maximum is lost. `step_peaks` are the
    peaks of all steps recorded. `rows` are all bytes at the peak by category, module and op; `failed` is the request
    that ended the recording.
    """

    peak_bytes: int
    peak_phase: str
    source: str
    categories: tuple[MemoryShare, ...]
    beyond: tuple[MemoryShare, ...] = ()
    process_bytes: int | None = None
    process_source: str = ""
    device_parts: tuple[MemoryShare, ...] = ()
    device_bytes: int | None = None
    device: str = ""
    peak_step: int | None = None
    peak_s: float = 0.0
    step_peaks: tuple[int, ...] = ()
    timeline_s: tuple[float, ...] = ()
    timeline_categories: dict[str, tuple[int, ...]] = {}
    bands: tuple[TimelineBand, ...] = ()
    largest: tuple[LiveBlock, ...] = ()
    rows: tuple[MemoryRow, ...] = ()
    fragmentation: Fragmentation | None = None
    growth: tuple[Growth, ...] = ()
    failed: FailedRequest | None = None


class RooflinePoint(Struct):
    """A kernel, op, module, phase or step on the roofline.

    `kind` is `kernel`, `op`, `module`, `phase` or `step`. `intensity` is FLOP/byte and `achieved` FLOP/s.
    `attainable_s` is max(FLOPs / peak, bytes / bandwidth) per step; `bound` names the ceiling it comes from
    (`compute`, `memory`; `overhead` for calls too small for either; `unknown`), `level` the memory level held
    against it. `achieved` above the roof is flagged in `above_roof`: a modelling error, not a feat.
    `shapes` are the inputs of an op where all its calls share them.
    """

    kind: str
    name: str
    calls: float
    seconds: float
    share: float
    flops: float
    bytes: float
    intensity: float
    achieved: float
    unit: str
    dtype: str
    bound: str
    attainable_s: float | None
    above_roof: bool = False
    level: str = "memory"
    shapes: str = ""


class OpRow(Struct):
    """A row of a table of ops, kernels or modules, per step. None where it is not modelled or not known.

    `bound` is as for a `RooflinePoint`, or `communication` or `copy`. `op` is set on a kernel's row: the op it ran for.
    `above_roof` marks a cost that must be wrong, since no device is that fast.
    """

    name: str
    phase: str
    module: str
    shapes: str
    calls: float
    seconds: float
    share: float
    flops: float | None
    bytes: float | None
    intensity: float | None
    bound: str
    attainable_s: float | None
    efficiency: float | None
    cost_source: str
    op: str = ""
    unit: str = ""
    dtype: str = ""
    level: str = ""
    above_roof: bool = False


class CompileSummary(Struct):
    """torch.compile of a variant.

    `break_even_step` is where the time won has paid for compiling; None means never or unknown, and `break_even`
    says in words which.
    """

    seconds: float | None
    graphs: int | None
    graph_breaks: int | None
    break_reasons: tuple[str, ...]
    cache: str
    break_even_step: int | None
    break_even: str


class PerStep(Struct):
    """How often something happened in a step: the median over steps, and the fewest and most."""

    median: float
    least: int
    most: int


class Slowdown(Struct):
    """How long the steps took under an instrument, the median, and how many times as long as timed steps that is."""

    instrument: str
    seconds: float
    ratio: float
    steps: int


class Outliers(Struct):
    """Timed steps of more than twice the median, `count` of `steps`: the shortest and longest in medians.

    `excess_s` is what they cost beyond the median, per step of all; `every` the number of steps from each to the next
    where it is always the same, else None. `data_share` is the part of the excess that was waiting for data, None where
    no waiting was recorded.
    """

    count: int
    steps: int
    shortest: float
    longest: float
    excess_s: float
    every: int | None = None
    data_share: float | None = None


class Watched(Struct):
    """What the log of a loop that was watched all the time tells: of `steps` steps the median of the seconds' medians,
    at the beginning and at the end, a tenth of all steps each; and when it told of a drift, in words."""

    steps: int
    first_s: float
    last_s: float
    drifts: tuple[str, ...] = ()


class LoopRank(Struct):
    """One rank of a loop: its median step, and how long it waited for data, as in `Loop`."""

    rank: int
    step_s: float | None
    data_wait_s: float | None
    data_wait_mean_s: float | None
    data_wait_share: float | None


class Loop(Struct):
    """How a loop that is not perfkit's own was watched, and what its timed steps did.

    What is told of all ranks is that of the worst: waiting (`data_wait_s` in the median step, `data_wait_mean_s` in the
    mean, `data_wait_share` of all steps' time) and `slowdowns`. The other facts are the first rank's. `microbatches`
    are the backward passes of an optimizer step, None where several optimizers leave open whose they are. `left_out_s`
    are steps that were not timed since an evaluation ran in them. `data_waits_s` are the waits of the timed steps of
    the slowest rank, whose steps are the variant's samples; empty where they are not known. `units_per_step` is what
    all ranks train on in a step, 0 where nobody knows. `watched` is there where the loop was watched all the time.
    """

    steps_by: str
    steps_seen: int
    first_timed: int
    steps_timed: int
    optimizers: tuple[str, ...]
    models: tuple[str, ...]
    optimizer_steps: PerStep | None
    forwards: PerStep | None
    backwards: PerStep | None
    microbatches: float | None
    data_wait_s: float | None
    data_wait_mean_s: float | None
    data_wait_share: float | None
    left_out_s: tuple[float, ...]
    slowdowns: tuple[Slowdown, ...]
    outliers: Outliers | None
    units_source: str
    trigger: str
    ranks: tuple[LoopRank, ...]
    data_waits_s: tuple[float, ...] = ()
    units_per_step: float = 0.0
    unit: str = ""
    watched: Watched | None = None


class Variant(Struct):
    """One row of the report. `loop` is there for what perfkit was attached to, and None for what it ran itself.

    `kernels_per_step` are the kernels and copies of a device in a traced step, on a CPU the ops that do work
    themselves; None where no step was traced. `lost` are kernels that the trace lacks: with any that matter, what is
    told of the traced step is a bound.
    """

    name: str
    techniques: tuple[str, ...]
    world_size: int
    is_baseline: bool
    status: Status
    reason: str
    traceback: str
    runs: tuple[str, ...]
    step_time: Estimate | Missing
    cpu_time: Estimate | Missing
    throughput: Estimate | Missing
    throughput_unit: str
    peak_allocated: Quantity
    peak_reserved: Quantity
    rss: Quantity
    model_flops: Quantity
    hardware_flops: Quantity
    mfu: Quantity
    hfu: Quantity
    mfu_peak: str
    energy_per_step: Quantity
    energy_per_unit: Quantity = NOT_MEASURED
    power: Quantity = NOT_MEASURED
    difference: Difference | None
    cpu_difference: Difference | None = None
    memory_ratio: float | None
    parity: Parity
    engaged: bool | None
    claims: tuple[ClaimResult, ...]
    setup: tuple[SetupCost, ...]
    compile: CompileSummary | None
    step_samples: tuple[tuple[float, ...], ...]
    warmup_samples: tuple[tuple[float, ...], ...]
    losses: tuple[float | None, ...]  # None where a loss was not finite
    time_split: tuple[TimeShare, ...]
    traced_step_s: float | None
    modelled_share: float | None
    memory: MemoryAccount | None
    points: tuple[RooflinePoint, ...]
    ops: tuple[OpRow, ...]
    warnings: tuple[str, ...]
    loop: Loop | None = None
    kernels_per_step: float | None = None
    lost: LostKernels | None = None


class Finding(Struct):
    """What to do next.

    `severity` is `gain`, `warning` or `note`; the gain is in seconds per step (of a trace without steps: in all, and
    `per_step` is False) or bytes, where it is known, and is the most that can be won (`gain_bound`; at least so much
    where kernels were lost). `evidence` is short; `details` say what the gain rests on and where else the same was
    found.
    """

    severity: str
    title: str
    variant: str
    evidence: str
    action: str
    gain_s: float | None = None
    gain_bytes: int | None = None
    details: tuple[str, ...] = ()
    per_step: bool = True
    gain_bound: str = AT_MOST


class Provenance(Struct):
    """How a figure of the report was obtained."""

    figure: str
    how: str
    detail: str


class Analysis(Struct):
    """Everything a report shows."""

    schema_version: int = ANALYSIS_VERSION
    title: str
    created_at: str
    perfkit: str
    command: str
    workload: str
    workload_description: str
    environment: Environment | None
    ceilings: DeviceCeilings | None
    variants: tuple[Variant, ...]
    pareto: tuple[str, ...]
    findings: tuple[Finding, ...]
    provenance: tuple[Provenance, ...]
    warnings: tuple[str, ...]
