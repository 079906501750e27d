"""A suite: its variants and their results."""

from typing import ClassVar

from msgspec.structs import force_setattr

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.estimate import (
    ClaimOutcome,
    Difference,
    MedianEstimate,
    MissingEstimate,
    ParityVerdict,
    Provenance,
)
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.fleet import CollectiveVolume, Fleet, Pipeline, RankDifference, StepGrid, TimedRank
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.prediction import Prediction
from perfkit.analysis.model.scaling import SuiteScaling, Sweep
from perfkit.analysis.model.step import OUTSIDE, OpRow, TimeShare
from perfkit.analysis.model.trace import RankTrace
from perfkit.core.note import Note
from perfkit.core.record.environment import Environment, MachineLoad
from perfkit.core.record.quantity import NOT_MEASURED, Quantity
from perfkit.core.record.rank_record import ExpertLoad, Recompilation, RunStatus, SetupCost
from perfkit.core.record.run_result import RankWait
from perfkit.core.spec import Struct
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.store.layout import BatchSearch, RecomputationSearch, SuiteSampling
from perfkit.store.price import Price
from perfkit.store.suite_state import Conclusion
from perfkit.store.technique_ranking import TechniqueRanking

ANALYSIS_VERSION = 10


class Parity(Struct):
    """Losses against the baseline's on the same data.

    `verdict` is `equal`, `within tolerance`, `differs`, `not comparable` or `unknown`; `basis` is where the tolerance
    comes from, or the reason for the last two. `not_finite_step` is the first step, from 1, whose loss is NaN or
    infinite: it `differs` then, the baseline's too. `gradient_ratio` and `buffer_ratio` are the norms of the first
    gradients, and of the buffers after the compared warm-up steps, over the baseline's; set if it `differs` for that.
    `gradient_rank` is the rank with these gradients, None where a rank holds parts of them. `steps` losses were
    compared of `recorded_steps`: fewer where the baseline's training stops being predictable.
    """

    verdict: ParityVerdict
    max_relative: float | None
    tolerance: float | None
    basis: str
    steps: int
    not_finite_step: int | None = None
    gradient_ratio: float | None = None
    buffer_ratio: float | None = None
    gradient_rank: int | None = None
    recorded_steps: int = 0


class ClaimResult(Struct):
    """A claim checked: `outcome` is its verdict, `holds` is None where a fact is missing.

    `fact` is what was counted (docs/facts.md), with its unit in its name. `id` is `claim.TECHNIQUE.FACT`, without what
    follows the fact's colon: claims of a technique on one kind of fact share it.
    `evidence` states the expected and measured values in words. `holds_in_baseline` is set where all claims of the
    technique also hold in the baseline: it then has no effect, and the claim does not hold. A claim that holds in part
    does not hold. `undo` is a command that runs the variant without the technique; "" for an attached loop.
    """

    technique: str
    statement: str
    outcome: ClaimOutcome
    holds: bool | None
    expected: float | None
    measured: float | None
    evidence: str
    fact: str
    holds_in_baseline: bool = False
    id: str = ""
    undo: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            force_setattr(self, "id", f"claim.{self.technique}.{self.fact.partition(':')[0]}")


class KeptCopies(Struct):
    """Memory between steps beyond the baseline's and beyond what the techniques declare.

    `category` is `parameter`, `gradient`, `optimizer state`, `buffer`, or `other` for tensors outside of these; `host`
    for those in host memory. `rank` is the rank with most, `dtypes` are those of the other tensors that grew.
    """

    category: str
    kept_bytes: int
    declared_bytes: int
    parameter_bytes: int
    rank: int
    dtypes: tuple[str, ...] = ()


class WarmCompile(Struct):
    """Compilation with warm on-disk caches of torch.compile: the median over some processes.

    `break_even_step` and `break_even` are as in `CompileSummary`.
    """

    seconds: float
    processes: int
    break_even_step: int | None
    break_even: str


class CompileSummary(Struct):
    """torch.compile of a variant.

    `seconds` are those of its first process. `cache` is the state of its caches: empty in a bench. `warm` are later
    processes, None where none had all caches warm. `break_even_step` is the step at which the saved time has paid for
    compilation; None means never or unknown, and `break_even` says which in words. `graph_breaks` are counted at
    compile time, once for code shared by layers. `recompilations` are the first rank's. `graph_calls` is the number of
    compiled graph calls in a traced step, forward and backward, None without one.
    """

    seconds: float | None
    graphs: int | None
    graph_breaks: int | None
    break_reasons: tuple[str, ...]
    cache: str
    break_even_step: int | None
    break_even: str
    recompilations: tuple[Recompilation, ...] = ()
    graph_calls: float | None = None
    warm: WarmCompile | None = None


class DeviceClocks(Struct):
    """Clock of a GPU's SMs during the timed steps, from `readings` of its driver while it was not idle.

    `sm_hz` is their median, `low_hz` and `high_hz` their range; `max_hz` is the highest clock of the device, None if
    the driver does not report it. `limits` has the share of readings with each reason for a lower clock, the most
    frequent first; None if the driver reports no reasons. Of several ranks these are of `rank`, the one with the
    lowest clock.
    """

    rank: int
    readings: int
    sm_hz: float
    low_hz: float
    high_hz: float
    max_hz: float | None
    limits: dict[str, float] | None


class Variant(Struct):
    """One row of the report. `loop` is set for attached loops, None for perfkit's own runs.

    `trace` is the trace of the first rank with a traced step, with the longest rows of its tables; None without one.
    Where it lacks kernels that matter, figures of the traced step are bounds. `units_per_step` are the tokens or
    samples of all ranks. `cost` is the cost of a million tokens or a thousand samples, None without a price.
    `comparison_unit` is the unit (`token`, `sample`) for comparing time and memory, "" where whole steps are compared:
    its batches equal the baseline's. `copies` is memory that no technique declares: `active` is False then.
    `active_in_part` is set where `active` is False only because claims hold in part.
    `emulation_reason` is why the device only emulates a technique, "" where it does
    not: such a variant is not compared. `data_wait_share` is the share of data waits in the timed steps of its first
    run, on the rank that waits most; None without a DataLoader. `prediction` is set where a plan of it exists.
    `reason_id` is the stable id of the error behind `reason`, "" without one. `rank_waits` are the locations of the
    ranks of its first failed run. `ranks` and `steps_by_rank` are the timed steps of several ranks,
    `rank_differences` what differs between their environments. `fleet` shows from their traces which rank waits for
    which. `pipeline` is a traced step of the ranks of a pipeline. `expert_loads` are the loads of each layer's experts,
    over all ranks of its first run. `clocks` is None where no driver reported them. `trace_backend` and its
    reason are those of the first rank's record. `verify` is a command that measures it again beside its baseline:
    claims, losses, time and memory; "" for an attached loop and for launchers of a cluster.
    """

    name: str
    techniques: tuple[str, ...]
    world_size: int
    is_baseline: bool
    status: RunStatus
    reason: str
    traceback: str
    runs: tuple[str, ...]
    step_time: MedianEstimate | MissingEstimate
    cpu_time: MedianEstimate | MissingEstimate
    throughput: MedianEstimate | MissingEstimate
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
    cost: MedianEstimate | MissingEstimate | None = None
    units_per_step: int | None = None
    comparison_unit: str = ""
    difference: Difference | None
    cpu_difference: Difference | None = None
    memory_ratio: float | None
    parity: Parity
    active: bool | None
    active_in_part: bool = False
    emulation_reason: str = ""
    claims: tuple[ClaimResult, ...]
    copies: tuple[KeptCopies, ...] = ()
    setup: tuple[SetupCost, ...]
    compile: CompileSummary | None
    step_samples: tuple[tuple[float, ...], ...]
    warmup_samples: tuple[tuple[float, ...], ...]
    losses: tuple[float | None, ...]  # None where a loss was not finite
    memory: MemoryAccount | None
    warnings: tuple[Note, ...]
    data_wait_share: float | None = None
    loop: LoopAnalysis | None = None
    trace: RankTrace | None = None
    prediction: Prediction | None = None
    rank_waits: tuple[RankWait, ...] = ()
    ranks: tuple[TimedRank, ...] = ()
    rank_differences: tuple[RankDifference, ...] = ()
    steps_by_rank: StepGrid | None = None
    fleet: Fleet | None = None
    volumes: tuple[CollectiveVolume, ...] = ()
    expert_loads: tuple[ExpertLoad, ...] = ()
    pipeline: Pipeline | None = None
    reason_id: str = ""
    clocks: DeviceClocks | None = None
    trace_backend: str = ""
    trace_backend_reason: str = ""
    verify: str = ""

    @property
    def traced_step(self) -> RankTrace | None:
        """The trace, if it marks steps."""
        return self.trace if self.trace is not None and self.trace.steps else None

    @property
    def time_split(self) -> tuple[TimeShare, ...]:
        """The time split of the traced step; empty without one."""
        return () if self.traced_step is None else self.traced_step.time_split

    @property
    def points(self) -> tuple[OpRow, ...]:
        """The dots of the traced step's roofline; none where none was traced."""
        return () if self.traced_step is None else self.traced_step.points

    @property
    def ops(self) -> tuple[OpRow, ...]:
        """The ops of the traced step, the longest first; none where none was traced."""
        rows = () if self.traced_step is None else self.traced_step.ops
        return tuple(sorted((row for row in rows if row.phase != OUTSIDE), key=lambda row: -row.seconds))


class MeasuredSession(Struct):
    """One order to measure: which variants were timed in it, and the baselines' step times in it alone."""

    created_at: str
    command: str
    variants: tuple[str, ...]
    baseline_steps: dict[str, MedianEstimate]


class Analysis(DisplayMixin, Struct):
    """Everything a report shows.

    `folder` is the suite's, as it was named; "" where that is unknown. `untested` are techniques to try next, None
    where none was ranked.
    """

    subject: ClassVar[str] = "suite"
    schema_version: int = ANALYSIS_VERSION
    title: str
    created_at: str
    perfkit: str
    command: str
    folder: str = ""
    workload: str
    workload_description: str
    environment: Environment | None
    ceilings: DeviceCeilings | None
    variants: tuple[Variant, ...]
    pareto: tuple[str, ...]
    sampling: SuiteSampling | None = None
    sessions: tuple[MeasuredSession, ...] = ()
    price: Price | None = None
    sweeps: tuple[Sweep, ...] = ()
    scaling: SuiteScaling | None = None
    searches: tuple[BatchSearch, ...] = ()
    recomputations: tuple[RecomputationSearch, ...] = ()
    load: MachineLoad | None = None  # while the timed runs were made
    conclusion: Conclusion = Conclusion.COMPLETE
    untested: TechniqueRanking | None = None
    findings: tuple[Finding, ...]
    provenance: tuple[Provenance, ...]
    warnings: tuple[Note, ...]
