"""Records that a worker writes: plain data, written by the measuring side and read by the analyzing side.

Every quantity says how it was obtained; an unknown one is an `Unknown` with a reason, never zero.
"""

from collections.abc import Iterable
from enum import StrEnum

from perfkit.core.note import Note
from perfkit.core.spec import Struct

RECORD_VERSION = 8

# Ranges a worker marks in a trace (record_function) and in NVTX, read back by the analyzing side.
MARK_PREFIX = "perfkit::"
STEP_MARK = MARK_PREFIX + "step"
PHASES = ("data", "forward", "backward", "optimizer")


class QuantityOrigin(StrEnum):
    """Origin of a number."""

    MEASURED = "measured"  # a clock, an allocator, a sensor
    COUNTED = "counted"  # counted exactly while the program ran
    MODELED = "modeled"  # a formula over recorded inputs
    DATASHEET = "datasheet"  # the vendor's figure


class RunStatus(StrEnum):
    """Status of a run. Every one of them is a result."""

    OK = "ok"
    SKIPPED = "skipped"
    OUT_OF_MEMORY = "out of memory"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"


class Measurement(Struct, tag="known"):
    """A number, its unit (`s`, `bytes`, `FLOP`, `FLOP/s`, `B/s`, `J`, `W`, `1`), how it was obtained and its source.

    `bound` is `at least` if the source is known to be incomplete. `of` is the whole of a share, such as the peak of a
    utilization: `989 TFLOP/s (bf16)`.
    """

    value: float
    unit: str
    how: QuantityOrigin
    source: str
    bound: str = ""
    of: str = ""


class Unknown(Struct, tag="unknown"):
    """A number that is not known, with the reason."""

    reason: str


Quantity = Measurement | Unknown


class Relation(StrEnum):
    AT_LEAST = ">="
    AT_MOST = "<="
    EQUAL = "=="


class Claim(Struct):
    """Something that must be true if a technique acted: `fact relation value`, checked against measured facts.

    `fact` names an entry of `RankRecord.facts` or one that the analysis derives from the trace
    (`perfkit.FACTS` lists both). With `relative_to`, `value` is a factor on another fact: a fact of the
    same record (`"reference_saved_tensor_bytes"`) or the same fact of the baseline run (`"baseline"`).
    `tolerance` is relative and applies to EQUAL. With `whole` and AT_LEAST, `value` is all that was to change: the
    claim holds from nine tenths on, and below that in part. `counted` names what it counts ("attention calls").
    """

    technique: str
    statement: str
    fact: str
    relation: Relation
    value: float
    relative_to: str = ""
    tolerance: float = 0.0
    whole: bool = False
    counted: str = ""


class ParityRule(Struct):
    """Allowed difference of losses from the baseline's: `relative` tolerance and its basis.

    `relative` is None where losses cannot be compared, since another function is trained or on another trajectory;
    `basis` then says why.
    """

    relative: float | None
    basis: str


class SetupCost(Struct):
    """Time spent once before training: building the model, applying a technique, compiling."""

    name: str
    seconds: float


class StepSamples(Struct):
    """Raw series of consecutive steps, in seconds, one entry per step.

    `device_s` is the time between device events, empty on a CPU.
    """

    wall_s: tuple[float, ...] = ()
    cpu_s: tuple[float, ...] = ()
    device_s: tuple[float, ...] = ()


class Flops(Struct):
    """FLOPs of one optimizer step of this rank.

    `model` counts forward and backward of the unmodified model (for MFU), `hardware` the step as run, with
    recomputation and the optimizer (for HFU). `masked` are those of masked pairs that attention kernels skipped in it:
    MFU and HFU count them, `hardware` does not. `by_dtype` splits `hardware` by compute precision (`tf32`, `fp32`,
    `bf16`), empty if not counted. `uncounted` names ops without a formula, with their number of calls.
    """

    model: Quantity
    hardware: Quantity
    uncounted: dict[str, int] = {}
    by_dtype: dict[str, float] = {}
    masked: float = 0.0


class MemoryPeaks(Struct):
    """Peaks over the timed steps where the allocator keeps statistics (GPU), and the process's RSS.

    On a CPU the allocator keeps none: the peak comes from the events of the memory pass.
    """

    allocated: Quantity
    reserved: Quantity
    driver_used: Quantity
    rss: Quantity


NOT_MEASURED = Unknown(reason="not measured")


class DeviceMemoryState(Struct):
    """Memory of a device at one moment, in bytes: the caching allocator's counts and the driver's view.

    `process` is the memory of this process, `device` that of all processes. `driver` is reserved for the driver and the
    firmware; if unknown, it is within `device`.
    """

    allocated: int
    reserved: int
    process: Quantity
    device: Quantity
    driver: Quantity = NOT_MEASURED


class ProcessMemory(Struct):
    """Memory of a process besides the allocated bytes, read at moments that tell its parts apart.

    In main memory: the resident set before the model was built (`before_model`, interpreter and libraries), its pages
    of files and shared memory (`mapped_before_model`), the peak resident set over the memory pass alone (`peak`), pages
    of files and shared memory at the end of that pass (`mapped_after`), and the batches kept for training (`batches`).

    On a GPU also moments of the device: its context just created (`at_context`), the process group's first collective
    done (`at_group`, with several ranks), the steps warm (`at_warm`), before the memory pass (`at_memory`) and after it
    (`at_end`).
    """

    before_model: Quantity = NOT_MEASURED
    mapped_before_model: Quantity = NOT_MEASURED
    peak: Quantity = NOT_MEASURED
    mapped_after: Quantity = NOT_MEASURED
    batches: Quantity = NOT_MEASURED
    at_context: DeviceMemoryState | None = None
    at_group: DeviceMemoryState | None = None
    at_warm: DeviceMemoryState | None = None
    at_memory: DeviceMemoryState | None = None
    at_end: DeviceMemoryState | None = None


class InitialBlock(Struct):
    """A storage alive when a recording of allocations begins, with its category (`perfkit.core.allocations`) and name.

    `shape` (`[8, 1024]`) and `dtype` (`bf16`) are those of its tensor; "" if unknown.
    """

    address: int
    size_bytes: int
    category: str
    name: str
    shape: str = ""
    dtype: str = ""


class DeviceSample(Struct):
    """One reading of the device's sensors; None where the device does not report it.

    `memory_used_bytes` is the memory of all processes, including the driver's reserve if `memory_reserved_bytes` is
    None. `power_w` is NVML's power usage: the mean over the last second on Ampere (without GA100, the chip of the A100)
    and later, the current power on others. `power_instant_w` is the current power on all. `sm_clock_max_hz` is the
    highest clock of the device's SMs, and `clock_limits` are the reasons for a lower one at that moment
    (`perfkit.devices.machine.clock_limits`), empty without one.
    """

    time_s: float
    utilization: float | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    sm_clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_instant_w: float | None = None
    sm_clock_max_hz: float | None = None
    clock_limits: tuple[str, ...] | None = None


class Environment(Struct):
    """Environment of a rank: everything that can change its numbers. Values are None where they cannot be read.

    `matmul_precision` is the precision of fp32 matmuls on this device, in the words of
    `torch.set_float32_matmul_precision` (`highest`, `high`, `medium`); `conv_precision` and `rnn_precision` are those
    of fp32 convolutions and recurrent layers, in the words of `fp32_precision` (`ieee`, `tf32`, `bf16`).
    """

    hostname: str
    platform: str
    python: str
    torch: str
    device: str  # torch's type
    device_name: str
    device_count: int
    device_memory_bytes: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    cuda: str | None = None
    matmul_precision: str | None = None
    conv_precision: str | None = None
    rnn_precision: str | None = None
    cpu_model: str | None = None
    cpu_capability: str | None = None  # the instruction set that torch uses (`AVX2`, `AVX512`)
    cpu_cores: int | None = None
    cpu_governor: str | None = None
    affinity: tuple[int, ...] | None = None
    threads: int | None = None
    memory_total_bytes: int | None = None
    container_cpu_limit: float | None = None
    container_memory_limit_bytes: int | None = None
    git_revision: str | None = None
    packages: dict[str, str] = {}
    variables: dict[str, str] = {}
    nccl: str | None = None  # on a GPU
    cudnn: str | None = None  # on an NVIDIA GPU
    onednn: str | None = None  # as torch was built with
    mkl: str | None = None
    cpu_max_hz: float | None = None  # the limit of the clock, where the system has one


class MachineLoad(Struct):
    """Other load of the machine during a measurement; a value is None where the system does not report it.

    Over `seconds`, and over the `cores` that the measured processes may use: the mean number of cores used by them and
    their children (`own_cores`), by other processes and the system (`other_cores`), and by the hypervisor for other
    machines (`stolen_cores`). In a container, `other_cores` covers everything on these cores of its host.
    `waiting_share` is the share of time in which some task of the machine, measured or not, waited for a core;
    `throttled_share` the share of its periods in which the container's CPU limit stopped tasks.
    """

    seconds: float
    cores: int
    own_cores: float | None = None
    other_cores: float | None = None
    stolen_cores: float | None = None
    waiting_share: float | None = None
    throttled_share: float | None = None


class WorkloadFacts(Struct):
    """The trained model, counted before any modification. `unit` is `tokens` or `samples`."""

    unit: str
    units_per_batch: int
    parameters: int
    model_flops_per_unit: float | None = None  # closed form, forward and backward, where the workload knows one
    description: str = ""


class TokenCounts(Struct):
    """Tokens in the `batches` of the timed steps of a rank, evaluations excluded.

    `computed` are all positions. `padding` are those that an attention mask excludes, or that lie behind the last
    offset of packed sequences; None where batches show neither. `labeled` have a label that the loss does not ignore;
    None without a label for each position. `useful` have one and are no padding; without labels they are no padding.
    """

    batches: int
    computed: int
    padding: int | None = None
    labeled: int | None = None
    useful: int | None = None


class WallTimeParts(Struct):
    """Wall time of a watched program on one rank, from the start of watching to its end: each moment is in one part.

    `startup_s` is the time until the first update has ended, without what else is named here. `training_s` are steps,
    up to twice the median of their optimizer's; `other_s` is what remains of longer ones, and what follows the last:
    logs, plots, downloads, failed attempts. `data_s` are waits for DataLoaders outside of evaluations, `evaluation_s`
    the time from `eval()` of the trained model to its `train()`, `checkpoint_s` that in which files of tensors were
    written, `compilation_s` that in torch.compile's compilers. `recording_s` is perfkit's own: stops for its
    instruments, and what they slowed steps down by. `updates` are the optimizer steps behind these times.
    """

    wall_s: float
    startup_s: float
    training_s: float
    data_s: float
    evaluation_s: float
    checkpoint_s: float
    compilation_s: float
    recording_s: float
    other_s: float
    updates: int
    evaluations: int
    checkpoints: int
    compilations: int

    @property
    def program_s(self) -> float:
        """Wall time without perfkit's own."""
        return self.wall_s - self.recording_s

    @property
    def share(self) -> float | None:
        """Goodput: the share of the program's time in training; None of no time."""
        return self.training_s / self.program_s if self.program_s > 0 else None


class AttachedLoop(Struct):
    """A user's loop as it was watched, with the counts of its timed steps, one entry per step.

    `step_marker` says in words how steps were detected, `units_source` the source of the units per step. `first_timed`
    is the number of the first timed step, counted from the start of watching; `steps_seen` is the number of steps seen.
    `data_wait_s` is the time spent in `next()` of torch's DataLoaders, empty without one. `excluded_steps_s` are timed
    steps excluded from the samples because an evaluation ran in them; `excluded_waits_s` are their waits for data.
    `instrumented_s` are the wall times of the steps under each instrument (`trace`, `memory`), which slow a step down.
    `fetches` are the batches requested from DataLoaders, empty without one; `repeated_forwards` the forward passes on
    what is, or may be, a batch already used in the same step. Per instrument, `pauses_s` is how long the loop was
    stopped for it, `peak_bytes` how much it raised the process's peak resident set, and `early_end_reasons` why it
    ended before all its steps.
    `shapes_changed`: the model's inputs had no shapes in most timed steps that they also had in all traced ones.
    `tokens` are those of the batches of DataLoaders, None where a batch does not name them; `padded_share` is the share
    of padding among the tokens of the model's first calls, None where it is not known. `collection_s` is the time in
    which Python collected garbage. `wall_time` is the whole run's, None until it has ended.
    """

    step_marker: str
    optimizers: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    steps_seen: int = 0
    first_timed: int = 0
    optimizer_steps: tuple[int, ...] = ()
    backwards: tuple[int, ...] = ()
    forwards: tuple[int, ...] = ()
    fetches: tuple[int, ...] = ()
    repeated_forwards: tuple[int, ...] = ()
    data_wait_s: tuple[float, ...] = ()
    excluded_steps_s: tuple[float, ...] = ()
    excluded_waits_s: tuple[float, ...] = ()
    instrumented_s: dict[str, tuple[float, ...]] = {}
    pauses_s: dict[str, float] = {}
    peak_bytes: dict[str, int] = {}
    early_end_reasons: dict[str, str] = {}
    units_source: str = ""
    trigger: str = ""
    shapes_changed: bool = False
    padded_share: float | None = None
    collection_s: tuple[float, ...] = ()
    tokens: TokenCounts | None = None
    wall_time: WallTimeParts | None = None


class Recompilation(Struct):
    """Graphs that torch.compile made of one function since the same guard failed.

    `function` is `forward (model.py:12)`, `guard` the last guard that failed, in torch's words without its graph's
    number. `seconds` are those of compiling these `count` graphs, forward and backward. `limited`: torch's limit was
    reached, from which on the function runs uncompiled where no graph fits. `argument` is what changed, as the function
    names it (`x`, `self.scale`), "" where the guard names none; `dimension` the one of a tensor whose size did, and
    `values` what it or the argument was and became, those that the guards name, in order. `steps` are the updates
    before which graphs were made, counted from 1; empty where they were not followed.
    """

    function: str
    guard: str
    count: int
    seconds: float
    limited: bool = False
    argument: str = ""
    dimension: int | None = None
    values: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()


class ExpertLoad(Struct):
    """Routing of a batch's tokens by one layer's router.

    `routed_tokens` counts by expert the tokens that are to go there, `accepted_tokens` those of them that found a slot,
    `dropped_tokens` the tokens that no expert takes. `auxiliary_loss` is the one that evens the load out, before its
    weight; None where the router has none.
    """

    layer: str
    tokens: int
    routed_tokens: tuple[int, ...]
    accepted_tokens: tuple[int, ...]
    dropped_tokens: int
    auxiliary_loss: float | None = None


class RankRecord(Struct):
    """Everything one rank measured. Written after every pass, so that a killed worker leaves its results.

    `pass_s` is the total time of each pass, in seconds. `perturbed_losses` are those of the same training started one
    rounding away (baselines only), of several the furthest from `losses`: where they part, losses no longer tell
    anything. `seeded_losses` are those of compiled code trained once more with eager code's random numbers. `energy` is
    per step (J), and `power` the mean over the steps it covers (W). `expert_loads` is of a batch after the timed steps.
    `attached_loop` is set for loops that perfkit was attached to, else None. `trace_backend` is what recorded the
    device in the trace (`kineto`, `cupti_monitor`), "" without one, and `trace_backend_reason` why not the monitor.
    """

    schema_version: int = RECORD_VERSION
    rank: int
    world_size: int
    status: RunStatus
    reason: str = ""
    reason_id: str = ""
    traceback: str = ""
    failed_pass: str = ""
    failed_step: int | None = None
    compute_dtype: str = "fp32"
    workload: WorkloadFacts | None = None
    environment: Environment | None = None
    setup: tuple[SetupCost, ...] = ()
    pass_s: dict[str, float] = {}
    warmup: StepSamples = StepSamples()
    is_steady: bool = False
    samples: StepSamples = StepSamples()
    losses: tuple[float | None, ...] = ()  # JSON has no NaN: a loss that is not finite is written as null
    perturbed_losses: tuple[float | None, ...] = ()
    seeded_losses: tuple[float | None, ...] = ()
    parity: ParityRule | None = None
    flops: Flops | None = None
    memory: MemoryPeaks | None = None
    process_memory: ProcessMemory = ProcessMemory()
    energy: Quantity = NOT_MEASURED
    power: Quantity = NOT_MEASURED
    device_samples: tuple[DeviceSample, ...] = ()
    claims: tuple[Claim, ...] = ()
    facts: dict[str, float] = {}
    fact_notes: dict[str, str] = {}
    recompilations: tuple[Recompilation, ...] = ()
    attached_loop: AttachedLoop | None = None
    expert_loads: tuple[ExpertLoad, ...] = ()
    trace_backend: str = ""
    trace_backend_reason: str = ""
    warnings: tuple[Note, ...] = ()


class RankWait(Struct):
    """Position of a rank when its run failed, from torch's flight recorder: the collective that it waited in.

    `finished` is whether it had ended: then it is the last one that the rank entered, of Gloo with or without an error.
    `sequence` is its number within its process group. `tensors` are shapes and dtypes (`[4, 1024] fp32`), `bytes` None
    where a dtype is not known. `call_site` is the innermost line that is not torch's (`train.py:12 (loss)`); "" where
    none was recorded.
    """

    rank: int
    op: str
    group: str
    sequence: int
    finished: bool
    tensors: str = ""
    bytes: int | None = None
    call_site: str = ""


class RunResult(Struct):
    """The parent's record of one launch: `run.json`, next to the ranks' records.

    `interleaved_variants` names the variants whose runs were resident at the same time, including its own, and stepped
    by turns: the n-th samples of all belong to the same turn. Empty if it ran alone. `load` is the machine's other
    load. `rank_waits` gives the position of each rank of a failed run, as far as recorded. `reason_id` is the stable id
    of the reason's error (`skip.package`); "" if it has none.
    """

    schema_version: int = RECORD_VERSION
    status: RunStatus
    reason: str = ""
    reason_id: str = ""
    output_tail: str = ""
    exit_codes: tuple[int | None, ...] = ()
    started_at: str = ""  # ISO 8601, UTC
    seconds: float = 0.0
    perfkit: str = ""
    interleaved_variants: tuple[str, ...] = ()
    load: MachineLoad | None = None
    rank_waits: tuple[RankWait, ...] = ()


def format_rank_reason(record: RankRecord) -> str:
    """Format why a rank failed, with the rank's number unless the reason concerns all ranks."""
    if record.world_size == 1 or not record.reason or record.status == RunStatus.SKIPPED:
        return record.reason
    return f"rank {record.rank}: {record.reason}"


def find_traceback(run: RunResult, records: Iterable[RankRecord]) -> str:
    """The traceback of the rank that explains how `run` ended; "" where it left none."""
    fitting = (record for record in records if record.traceback and record.status == run.status)
    return next(
        (record.traceback for record in fitting if run.reason in (record.reason, format_rank_reason(record))), ""
    )


def make_measurement(value: float, unit: str, source: str) -> Measurement:
    return Measurement(value=value, unit=unit, how=QuantityOrigin.MEASURED, source=source)


def get_whole(quantity: Quantity) -> str:
    """What a share is a share of, empty where that is not known."""
    return quantity.of if isinstance(quantity, Measurement) else ""


def get_value(quantity: Quantity | None) -> float | None:
    """The number, or None where it is not known."""
    return quantity.value if isinstance(quantity, Measurement) else None
