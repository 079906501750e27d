"""Figures of several ranks of one job, from their traces, and the actions of a pipeline's ranks."""

from perfkit.core.note import Note
from perfkit.core.record.quantity import Quantity
from perfkit.core.spec import Struct

FORWARD, BACKWARD, OF_INPUTS, OF_WEIGHTS = "F", "B", "I", "W"


class StageAction(Struct):
    """A stage's computation for a microbatch: F a forward pass, B a backward pass, I and W the gradients of inputs and
    of weights. Times are on the rank's own clock.
    """

    stage: int
    kind: str
    microbatch: int
    start_ns: int
    end_ns: int


class StageActions(Struct):
    """The actions of a rank's stages in a step, in order of time. With `waits`, the time of an action includes waiting
    for its inputs, as torch's own ranges do."""

    step: int
    actions: tuple[StageAction, ...]
    includes_waits: bool = False


class PipelineRank(Struct):
    """A rank of a pipeline: its actions by the first one's clock, and the share of the step shown in which it had none.

    `bubble` is that share as measured over the timed steps, where nothing was recorded.
    """

    rank: int
    actions: tuple[StageAction, ...]
    idle_share: float
    bubble: Quantity


class Pipeline(Struct):
    """One step of a pipeline, from its first action on any rank at `start_ns` until its last at `end_ns`.

    `expected_bubble` is the share of its time in which a rank computes nothing by theory, None where
    that is not known; `source` is that of the formula, with what it holds for.
    """

    step: int
    start_ns: int
    end_ns: int
    ranks: tuple[PipelineRank, ...]
    includes_waits: bool = False
    expected_bubble: float | None = None
    source: str = ""


# Figures of a `StepGrid`.
STEP, LATE, WAIT, CPU_TIME = "step", "straggler delay", "wait at collectives", "CPU time"


class RankRow(Struct):
    """A rank among others, per step. `late_s` is its mean delay after the first rank at collectives, `wait_s` its wait
    there for the last one, `last_share` the share of steps in which it was last overall, `caused_s` the time that all
    others waited for it alone; None where its collectives are unknown."""

    label: str
    rank: int | None
    step_s: float
    compute_s: float
    communication_s: float
    exposed_communication_s: float
    idle_s: float
    late_s: float | None
    clock_offset_s: float | None
    wait_s: float | None = None
    last_share: float | None = None
    caused_s: float | None = None


class SkewRow(Struct):
    """Collectives of one kind over all ranks, per step: `wait_s` is the mean time ranks waited for the last one.

    `worst_wait_s` is the longest wait of a rank. `latest_rank` is the rank that others waited for most. `latest_share`
    is the share of calls in which it arrived last.
    """

    name: str
    group: str
    calls: float
    wait_s: float
    worst_wait_s: float
    latest_rank: str
    latest_share: float


class CollectiveTiming(Struct):
    """Equal collectives over all ranks. `latency_s` is the mean time from the last rank's arrival until it leaves,
    `worst_latency_s` the longest. `start_skew_s` (`end_skew_s`) is the mean time from the first rank's begin (end)
    until the last one's. `message_bytes` are of the rank with most; where ranks differ, `summed_bytes` are those of all
    traced ranks, the mean over the calls. `bus_bandwidth` follows from the mean latency. `hosts` is whether the ranks
    share a host, empty where unknown.
    """

    name: str
    group: str
    group_size: int | None
    message_bytes: int | None
    calls: float
    latency_s: float
    worst_latency_s: float
    start_skew_s: float
    end_skew_s: float
    bus_bandwidth: float | None = None
    hosts: str = ""
    summed_bytes: float | None = None


class ExchangeMap(Struct):
    """Bytes of a step that all-to-alls move from each rank (row) to each (column); None where no trace shows it.

    `ranks` names rows and columns by their first member, of `ranks_per_row`.
    """

    ranks: tuple[int, ...]
    bytes: tuple[tuple[float | None, ...], ...]
    ranks_per_row: int = 1


class StepGrid(Struct):
    """Seconds by rank and step: for each figure (`STEP`, `LATE`, `WAIT`, `CPU_TIME`) a row per rank, a value per step.

    `ranks` and `steps` name rows and columns by their first member. `ranks_per_row` and `steps_per_column` are the
    members of each (the last one may have fewer). A value is the largest of its members, `worst_rank` is the rank that
    it comes from; None where unknown.
    """

    ranks: tuple[str, ...]
    steps: tuple[int, ...]
    figures: dict[str, tuple[tuple[float | None, ...], ...]]
    worst_rank: dict[str, tuple[tuple[str, ...], ...]] = {}
    ranks_per_row: int = 1
    steps_per_column: int = 1
    all_ranks: int = 0
    all_steps: int = 0


class TimedRank(Struct):
    """A rank in the timed steps of perfkit's own run: its medians over all of them, and their number.

    `cpu_s` shows which rank works more, because ranks that wait for each other have equally long steps; unless ranks
    wait by computing.
    """

    rank: int
    host: str
    step_s: float
    cpu_s: float | None
    steps: int


class CollectiveVolume(Struct):
    """A kind of collective in a step of a rank. None where not counted or not recorded.

    `message_bytes` are the bytes of its messages, as called by the program. `theoretical_bytes` are the bytes over the
    links of a rank in theory. `traced_bytes` are the same for the traced steps, where the backend may have used another
    kind (`backend_kind`).
    """

    kind: str
    calls: float
    message_bytes: float | None
    theoretical_bytes: float | None
    traced_bytes: float | None
    backend_kind: str
    seconds: float
    exposed_s: float
    hidden_share: float | None


# Wrappers for data parallelism.
DDP, FSDP1, FSDP2 = "DDP", "FSDP", "FSDP2"


class GradientReductions(Struct):
    """The reductions of gradients by `wrapper` (`DDP`, `FSDP`, `FSDP2`): medians over optimizer steps.

    `passes` are the backward passes of an optimizer step, of which `reducing` reduce gradients. `pass_bytes` are the
    messages of such a pass, `update_bytes` those of an optimizer step. `calls` are the reductions of such a pass, and
    `first_share` is when the first of them is requested: 0 at the begin of the pass, 1 with the last, whose bytes are
    `last_bytes`.
    """

    wrapper: str
    passes: float
    reducing: float
    pass_bytes: float
    update_bytes: float
    calls: float = 0.0
    first_share: float = 0.0
    last_bytes: float = 0.0


class ParameterGathers(Struct):
    """The all-gathers of FSDP2 by group of parameters: their number, and the bytes of the largest and of all groups.

    `largest` is the path of the module of the largest group, empty for the root.
    """

    groups: int
    largest: str
    largest_bytes: float
    all_bytes: float


class RankDifference(Struct):
    """A key of the environment in which ranks of a job differ: its `values`, that of most ranks first, and the labels
    of the `ranks` of each."""

    key: str
    values: tuple[str, ...]
    ranks: tuple[tuple[str, ...], ...]


class Fleet(Struct):
    """Several ranks of one job: the stragglers and their delays. `notes` name ranks that are missing or differ.

    `straggler` is the rank that comes latest. Where several come late together, `stragglers` are all of them, the
    latest first, and `stragglers_saved_s` is the time per step that is saved if all of them come with the others.

    `job` names the job where traces of several were given, else it is empty.
    """

    ranks: tuple[RankRow, ...]
    skew: tuple[SkewRow, ...]
    straggler: str
    step_spread: float | None
    notes: tuple[Note, ...] = ()
    grid: StepGrid | None = None
    timings: tuple[CollectiveTiming, ...] = ()
    exchange: ExchangeMap | None = None
    job: str = ""
    stragglers: tuple[str, ...] = ()
    stragglers_saved_s: float | None = None
    differences: tuple[RankDifference, ...] = ()
