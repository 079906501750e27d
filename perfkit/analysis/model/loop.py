"""A loop that perfkit was attached to."""

from perfkit.analysis.model.stacks import LoopStacks
from perfkit.spec import Struct

# Not at the top: results of traces import the definitions above.


class CountPerStep(Struct):
    """The number of occurrences in a step: the median over steps, and the fewest and most."""

    median: float
    min: int
    max: int


class Slowdown(Struct):
    """The median step under an instrument, and its ratio to timed steps. The loop paused for `pause_s` for it, and the
    largest resident set grew by `peak_bytes`; None where unknown."""

    instrument: str
    seconds: float
    ratio: float
    steps: int
    pause_s: float | None = None
    peak_bytes: int | None = None


class StepOutliers(Struct):
    """Timed steps of more than twice the median, `count` of `steps`: the shortest and longest in medians.

    `excess_s` is what they cost beyond the median, per step of all; `period` the number of steps from each to the next
    where it is always the same, else None. `data_share` is the part of the excess that was waiting for data, None where
    no waiting was recorded.
    """

    count: int
    steps: int
    shortest_ratio: float
    longest_ratio: float
    excess_s: float
    period: int | None = None
    data_share: float | None = None


class LiveSummary(Struct):
    """Summary of the log of a continuously watched loop: over `steps` steps, the median of the window medians at the
    beginning and at the end (a tenth of all steps each), and the drifts that it reported."""

    steps: int
    first_s: float
    last_s: float
    drifts: tuple[str, ...] = ()


class LoopRank(Struct):
    """One rank of a loop: its median step, and how long it waited for data, as in `LoopAnalysis`."""

    rank: int
    step_s: float | None
    data_wait_s: float | None
    data_wait_mean_s: float | None
    data_wait_share: float | None


class LoopAnalysis(Struct):
    """The measurement of an attached loop, and the results of its timed steps.

    What is told of all ranks is that of the worst: waiting (`data_wait_s` in the median step, `data_wait_mean_s` in the
    mean, `data_wait_share` of all steps' time) and `slowdowns`. The other facts are the first rank's. `microbatches`
    are the backward passes of an optimizer step, None where they need not be of a microbatch each. `excluded_steps_s`
    are steps that were not timed since an evaluation ran in them. `data_waits_s` are the waits of the timed steps of
    the slowest rank, whose steps are the variant's samples; empty where they are not known. `units_per_step` is what
    all ranks train on in a step, 0 where nobody knows. `live_log` is there where the loop was watched all the time,
    `stacks` where its Python stacks were sampled.
    """

    step_marker: str
    steps_seen: int
    first_timed: int
    steps_timed: int
    optimizers: tuple[str, ...]
    models: tuple[str, ...]
    optimizer_steps: CountPerStep | None
    forwards: CountPerStep | None
    backwards: CountPerStep | None
    microbatches: float | None
    data_wait_s: float | None
    data_wait_mean_s: float | None
    data_wait_share: float | None
    excluded_steps_s: tuple[float, ...]
    slowdowns: tuple[Slowdown, ...]
    outliers: StepOutliers | None
    units_source: str
    trigger: str
    ranks: tuple[LoopRank, ...]
    data_waits_s: tuple[float, ...] = ()
    units_per_step: float = 0.0
    unit: str = ""
    live_log: LiveSummary | None = None
    stacks: LoopStacks | None = None
