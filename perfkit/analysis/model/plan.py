"""Results of a plan, as stored in the suite's plan file, independent of the planner."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.estimate import Fit
from perfkit.analysis.model.memory_model import LiveBlock, MemoryAccount
from perfkit.analysis.model.step import OpRow
from perfkit.core.note import Note, make_note
from perfkit.core.spec import BASELINE, Scaling, Struct, WorkloadSpec
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.store.layout import RecomputationSearch
from perfkit.store.price import Price

PLAN_VERSION = 3

GAPS = "between kernels"  # the part of a step in which a GPU idles with work queued
DISK = "disk"  # the part in which a CPU waits for files that tensors are offloaded to


class Interval(Struct):
    """A predicted figure: the expected value, and its bounds."""

    value: float
    low: float
    high: float


class PlannedPeak(Struct):
    """Bytes that the allocator provides at the peak of a step, by purpose."""

    value: int
    low: int
    high: int
    phase: str
    categories: dict[str, int]

    @property
    def bounds(self) -> Interval:
        """The figure alone."""
        return Interval(value=self.value, low=self.low, high=self.high)


class NonTensorMemory(Struct):
    """A row of non-tensor memory: a context, a library's workspace, buffers of collectives.

    `source` is the origin of the bounds.
    """

    name: str
    bytes: Interval
    source: str


class ClosedForm(Struct):
    """Bytes by a published formula, to check the plan; `source` is the paper and the formula."""

    name: str
    bytes: float
    source: str


class StepTime(Struct):
    """Seconds of a step and of its parts, which add up, the largest, `dominant`, first.

    `parts` are classes of ops, the CPU where the device waits for it, and exposed communication. `source` is the origin
    of the efficiencies. `planned_eagerly` is set where a run compiles a step that is planned in eager mode, so that it
    may take more or less time. `threads` are the threads of a rank on a CPU, None on a GPU.
    """

    total: Interval
    parts: dict[str, float]
    dominant: str
    source: str
    planned_eagerly: bool = False
    threads: int | None = None


class PlannedPhase(Struct):
    """Memory and time of a phase of a rank's work: the first step, those after it, an evaluation, saving a checkpoint.

    `phase` is `first_step` (which makes the optimizer state), `step` (each one after it), `evaluation` (a step without
    gradients), `evaluation_kept` (with the logits of all batches kept), `checkpoint_full` or `checkpoint_sharded`.
    `needed` are the bytes on the rank's device, with memory outside the allocator; `host_bytes` those in main memory
    that torch's allocator of that device does not provide. `seconds` are of one step, or of one checkpoint. `cause` is
    the reason for the peak in words; `categories` are the allocator's bytes at the peak, and `largest` the largest
    blocks then, both empty where the phase allocates by a rule (kept logits, gathered state). None is unknown:
    `reason`, for the time `time_reason`.
    """

    phase: str
    needed: Interval | None = None
    fit: Fit = "unknown"
    host_bytes: int = 0
    seconds: Interval | None = None
    cause: str = ""
    reason: str = ""
    time_reason: str = ""
    categories: dict[str, int] = {}
    largest: tuple[LiveBlock, ...] = ()


class Packing(Struct):
    """Sequences packed into rows of `row_tokens`, against rows that are padded to `padded_tokens`, the longest.

    `fill` and `padded_fill` are the shares of a row's tokens that are of sequences. `attention` is `documents` if it is
    computed within sequences, `rows` if over whole rows. `padded_...` are of a step with about as many tokens, padding
    included: its time, its tokens of sequences on all ranks, and the memory of a rank; None is unknown.
    """

    row_tokens: int
    fill: float
    attention: str
    padded_tokens: int
    padded_fill: float
    padded_step_s: Interval | None = None
    padded_units_per_step: float = 0.0
    padded_needed: Interval | None = None


class PlannedLength(Struct):
    """Steps whose longest sequence, on any rank, has so many `tokens`.

    `batch_share` is the share of a rank's batches that are as long, `step_share` that of steps. `needed` are the bytes
    of a rank whose batch is; None is unknown.
    """

    tokens: int
    batch_share: float
    step_share: float
    needed: Interval | None = None
    fit: Fit = "unknown"


class PlannedVariant(Struct):
    """A variant on a number of equal ranks. None is unknown: `reason` says why for the memory.

    `within_allocator` is memory that a GPU's libraries request from torch's allocator, part of the peak.
    `outside_allocator` is not part of it. `fits` says whether all of it is within a rank's limit, None where the
    interval does not decide or no limit was given. `fit` and `verdict` say the same by id and in words. `flops` are the
    FLOPs of a step, with recomputation. `unmeasured_scratch` are ops whose library scratch memory is not in the peak:
    they are too large to try. `assumptions` are differences between plan and run, one per line. `memory` is the account
    of the step behind the peak, as for a measured run. `facts` (bytes of parameters by dtype, batch sizes),
    `compute_dtype` and the classes of `optimizers` identify the loop of a program. `ops` are the whole step and its
    ops, the longest first, with FLOPs, bytes and predicted seconds of all calls. `step_reason` is why the step time is
    unknown. `blocks` is the number of repeated blocks that the workload names, for `ckpt`. `batches_bytes` are the
    bytes of the batches that a bench makes before its first step and keeps in main memory. `units_per_step` are the
    tokens or samples (`unit`) of a step on all ranks. `matrix_flops` are the FLOPs of matrix products in a rank's
    forward and backward, with recomputation. `phases` are the first step, the steps after it, and what a rank does
    beside them; `deciding_phase` is the one that needs most, which decides whether the variant fits. `packing` is set
    where sequences are packed. `lengths` are set where sequences differ in length, the shortest first;
    `exceeding_share` is then the share of steps that need more than the limit, None without one.
    """

    name: str
    world_size: int
    peak_allocated_bytes: PlannedPeak | None = None
    within_allocator: tuple[NonTensorMemory, ...] = ()
    outside_allocator: tuple[NonTensorMemory, ...] = ()
    fits: bool | None = None
    fit: Fit = "unknown"
    verdict: str = ""
    flops: float | None = None
    closed_forms: tuple[ClosedForm, ...] = ()
    step_s: StepTime | None = None
    unmeasured_scratch: tuple[str, ...] = ()
    assumptions: tuple[Note, ...] = ()
    reason: str = ""
    memory: MemoryAccount | None = None
    facts: dict[str, float] = {}
    compute_dtype: str = ""
    optimizers: tuple[str, ...] = ()
    ops: tuple[OpRow, ...] = ()
    step_reason: str = ""
    blocks: int = 0
    batches_bytes: int = 0
    unit: str = ""
    units_per_step: float = 0.0
    matrix_flops: float | None = None
    phases: tuple[PlannedPhase, ...] = ()
    deciding_phase: str = ""
    packing: Packing | None = None
    lengths: tuple[PlannedLength, ...] = ()
    exceeding_share: Interval | None = None

    @property
    def outside_allocator_bytes(self) -> Interval:
        """All bytes outside the allocator."""
        return sum_intervals([row.bytes for row in self.outside_allocator])

    @property
    def needed_bytes(self) -> Interval | None:
        """The peak of the allocator and all beyond it; None where the peak is not known."""
        peak = self.peak_allocated_bytes
        return None if peak is None else sum_intervals([peak.bounds, self.outside_allocator_bytes])

    @property
    def remarks(self) -> tuple[Note, ...]:
        """Remarks on the figures."""
        untimed = make_note("plan.no_step_time", f"step time unknown: {self.step_reason}")
        return (*self.assumptions, *([untimed] if self.step_reason else []))

    @property
    def is_baseline(self) -> bool:
        """True if no technique is enabled."""
        return self.name.partition("@")[0] == BASELINE


def make_exact(value: float) -> Interval:
    """A figure without doubt."""
    return Interval(value=value, low=value, high=value)


def sum_intervals(parts: Sequence[Interval]) -> Interval:
    """The sum, with the sums of the bounds."""
    value, low, high = (sum(getattr(part, end) for part in parts) for end in ("value", "low", "high"))
    return Interval(value=value, low=low, high=high)


class GpuOffer(Struct):
    """A variant on a number of equal GPUs: whether it fits, how fast it trains, and its cost.

    `needed` and `limit_bytes` are of one GPU. `mfu` is the share of the peak of `compute_dtype` that the FLOPs of the
    unmodified model take. `price` is of one GPU, `cost` that of a million tokens or a thousand samples on all. None is
    unknown; `reason` says why.
    """

    device: str
    count: int
    variant: str
    limit_bytes: int
    fits: bool | None = None
    verdict: str = ""
    needed: Interval | None = None
    step_s: Interval | None = None
    unit: str = ""
    units_per_step: float = 0.0
    mfu: float | None = None
    price: Price | None = None
    cost: float | None = None
    reason: str = ""

    @property
    def units_per_s(self) -> float | None:
        """Tokens or samples per second of all GPUs."""
        return None if self.step_s is None or not self.units_per_step else self.units_per_step / self.step_s.value


class PlannedSize(Struct):
    """A batch size or sequence length, its planned need, and whether it fits; None where unknown: `reason`.

    `variant` is the name of the planned variant, with the technique that sets the size.
    """

    size: int
    fits: bool | None
    variant: str = ""
    needed_bytes: Interval | None = None
    reason: str = ""


class LargestSize(Struct):
    """The largest size of a variant that leaves the share `margin` of `limit_bytes` free; `size` None: none fits.

    `parameter` is `batch_size` or `seq_len`. `most` is the largest size considered. `sizes` are the planned ones, in
    order.
    """

    variant: str
    parameter: str = "batch_size"
    size: int | None
    limit_bytes: int
    margin: float
    most: int
    sizes: tuple[PlannedSize, ...]

    @property
    def chosen(self) -> PlannedSize:
        """The largest size that fits, or the last one planned."""
        return next((each for each in self.sizes if each.size == self.size), self.sizes[-1])


ExclusionRule = Literal["refused", "too_large", "may_fit", "saves_less", "recomputes_more", "slower"]

EXCLUSION_RULES: dict[ExclusionRule, str] = {
    "refused": "cannot act",
    "too_large": "do not fit",
    "may_fit": "may fit",
    "saves_less": "save less than one that does not fit",
    "recomputes_more": "recompute without need",
    "slower": "slower",
}


class ExcludedVariant(Struct):
    """A combination that is none of a search's results, by which rule, and why.

    `by` is the variant that rules it out, "" without one. `step_s` are the seconds of its step, planned, estimated or
    at least, as `reason` says; None if unknown.
    """

    name: str
    rule: ExclusionRule
    by: str = ""
    step_s: float | None = None
    reason: str = ""


class PlanSearch(Struct):
    """The result of a search through combinations of techniques: those that fit, the best first.

    Of those that differ in recomputation only, `fitting` has the least that fits. `ordered_by` is the order.
    `combinations` is the number of all combinations, of which `planned` are planned whole and `estimated` only
    estimated from plans with few of the model's blocks; if any is, `fitting` has the fastest only. `excluded` are all
    others, with the reasons. `left_out` are techniques that cannot act here, with the reason.
    """

    fitting: tuple[PlannedVariant, ...]
    ordered_by: str
    combinations: int
    planned: int
    estimated: int
    left_out: dict[str, str]
    excluded: tuple[ExcludedVariant, ...] = ()


class Plan(DisplayMixin, Struct):
    """The needs of each variant of a workload on a device.

    `device` is `cpu` or `cuda`. `device_name` is the device model, "" for a plan without one. `limit_bytes` is the
    memory limit of a rank, None without one. `ceilings` are the known ceilings of the device. `sources` are digests of
    the files of the user's workload, as a suite stores them. `recomputations` are the searches behind variants of
    `ckpt:fit`. `offers` are the variants on every GPU and number of GPUs, the best first; `run_units` the tokens or
    samples of the run whose time and cost are asked for. `largest` are the largest sizes that fit, of which `variants`
    are then. `scaling` is the fixed quantity as ranks are added; if it is
    the global batch (strong), that is the workload's.
    """

    subject: ClassVar[str] = "plan"
    schema_version: int = PLAN_VERSION
    created_at: str
    perfkit: str
    command: str
    workload: WorkloadSpec
    dtype: str
    accumulation: int
    scaling: Scaling = "weak"
    variants: tuple[PlannedVariant, ...]
    recomputations: tuple[RecomputationSearch, ...] = ()
    sources: dict[str, str] = {}
    device: str = "cpu"
    device_name: str = ""
    limit_bytes: int | None = None
    ceilings: DeviceCeilings | None = None
    offers: tuple[GpuOffer, ...] = ()
    run_units: float | None = None
    largest: tuple[LargestSize, ...] = ()
