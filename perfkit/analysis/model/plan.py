"""Results of a plan, as stored in the suite's plan file, independent of the planner."""

from collections.abc import Sequence
from typing import ClassVar

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.verdicts import Fit
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.spec import BASELINE, Scaling, Struct, WorkloadSpec
from perfkit.store.layout import RecomputationSearch

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
    """A row of memory that is in no tensor: a context, a library's workspace, buffers of collectives.

    `source` is where the bounds come from.
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

    Parts are classes of ops, the host where the device waits for it, and communication that nothing hides. `source` is
    what the efficiencies are from. `planned_eagerly`: a run compiles what is planned as it runs eagerly, which may
    take it less time or more. `threads` are those of a rank on a CPU, None on a GPU.
    """

    total: Interval
    parts: dict[str, float]
    dominant: str
    source: str
    planned_eagerly: bool = False
    threads: int | None = None


class PlannedVariant(Struct):
    """A variant on a number of equal ranks. None is unknown: `reason` says why for the memory.

    `within_allocator` is what a GPU's libraries ask of torch's allocator, which is in the peak; `outside_allocator` is
    not. `fits` says whether all of it is within what a rank may take, None where the interval does not tell or nothing
    was said of a limit; `fit` and `verdict` say it by id and in words. `flops` are those of a step, with what is
    computed again.
    `untried` are ops whose libraries take scratch memory that is not in the peak: they are too large to try.
    `assumptions` say what is planned otherwise than it runs, a line each.
    `memory` is the account of a step that the peak is from, as a measured run has one.
    `facts` (bytes of parameters by dtype, sizes of the batch), `compute_dtype` and the classes of `optimizers` are what
    the loop of a program is told by. `ops` are the whole step and its ops, the longest first, with FLOPs, bytes and
    predicted seconds of all calls. `step_reason` is why the time of the step is not known.
    `blocks` is how many repeated blocks the workload names, which `ckpt` works on; `batches_bytes` are those of the
    batches that a bench makes before its first step and keeps in main memory.
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
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    memory: MemoryAccount | None = None
    facts: dict[str, float] = {}
    compute_dtype: str = ""
    optimizers: tuple[str, ...] = ()
    ops: tuple[OpRow, ...] = ()
    step_reason: str = ""
    blocks: int = 0
    batches_bytes: int = 0

    @property
    def outside_allocator_bytes(self) -> Interval:
        """All bytes outside the allocator."""
        return _sum_intervals([row.bytes for row in self.outside_allocator])

    @property
    def needed_bytes(self) -> Interval | None:
        """The peak of the allocator and all beyond it; None where the peak is not known."""
        peak = self.peak_allocated_bytes
        return None if peak is None else _sum_intervals([peak.bounds, self.outside_allocator_bytes])

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the figures, one per line."""
        untimed = f"step time unknown: {self.step_reason}"
        return (*self.assumptions, *([untimed] if self.step_reason else []))

    @property
    def is_baseline(self) -> bool:
        """True if no technique is enabled."""
        return self.name.partition("@")[0] == BASELINE


def _sum_intervals(parts: Sequence[Interval]) -> Interval:
    value, low, high = (sum(getattr(part, end) for part in parts) for end in ("value", "low", "high"))
    return Interval(value=value, low=low, high=high)


class PlannedBatch(Struct):
    """A batch size, its planned need, and whether it fits; None where unknown: `reason`."""

    size: int
    fits: bool | None
    needed_bytes: Interval | None = None
    reason: str = ""


class LargestBatch(Struct):
    """The largest batch of a variant that leaves the share `margin` of `limit_bytes` free; `size` None: none fits.

    `most` is the size beyond which none was planned, `sizes` are those that were, in order.
    """

    variant: str
    size: int | None
    limit_bytes: int
    margin: float
    most: int
    sizes: tuple[PlannedBatch, ...]


class PlanSearch(Struct):
    """The result of a search through combinations of techniques: those that fit, the best first.

    `ordered_by` says by what. Of all `combinations` those that are not planned are ruled out by others: they save less
    than one that does not fit, or compute again what need not be. Among the `planned` ones is each technique
    alone. `left_out` are techniques that cannot act here, with why.
    """

    fitting: tuple[PlannedVariant, ...]
    ordered_by: str
    combinations: int
    planned: int
    left_out: dict[str, str]


class Plan(DisplayMixin, Struct):
    """The needs of each variant of a workload on a device.

    `device` is `cpu` or `cuda`, `device_name` which one, "" where the plan is of none in particular. `limit_bytes` is
    what a rank may take, None where nothing was said of it. `ceilings` are what is known of the device's. `sources` are
    digests of the files of the user's own workload, as a suite keeps them. `recomputations` are how variants of
    `ckpt:fit` were found. `scaling` is what stays as ranks are added; where it is the batch of all ranks together
    (strong), that is the workload's.
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
