"""`record.json`: everything one rank measured, written by the measuring side and read by the analyzing side."""

from enum import StrEnum

from perfkit.core.note import Note
from perfkit.core.record.attached_loop import AttachedLoop
from perfkit.core.record.claim import Claim, ParityRule
from perfkit.core.record.environment import DeviceSample, Environment
from perfkit.core.record.memory import MemoryPeaks, ProcessMemory
from perfkit.core.record.quantity import NOT_MEASURED, Quantity
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import Struct

RECORD_VERSION = 8


class RunStatus(StrEnum):
    """Status of a run. Every one of them is a result."""

    OK = "ok"
    SKIPPED = "skipped"
    OUT_OF_MEMORY = "out of memory"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"


class SetupCost(Struct):
    """Time spent once before training: building the model, applying a technique, compiling."""

    name: str
    seconds: float


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


class WorkloadFacts(Struct):
    """The trained model, counted before any modification. `unit` is `tokens` or `samples`."""

    unit: str
    units_per_batch: int
    parameters: int
    model_flops_per_unit: float | None = None  # closed form, forward and backward, where the workload knows one
    description: str = ""


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
