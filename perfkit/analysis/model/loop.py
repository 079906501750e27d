"""A loop that perfkit was attached to."""

from perfkit.analysis.model.stacks import LoopStacks
from perfkit.core.record.attached_loop import PeakRise, WallTimeParts
from perfkit.core.record.quantity import Quantity
from perfkit.core.spec import Struct


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

    `excess_s` is their time beyond the median, averaged over all steps. `period` is the constant number of steps
    between them, else None. `data_share` is the share of data waits in the excess, None where not recorded.
    """

    count: int
    steps: int
    shortest_ratio: float
    longest_ratio: float
    excess_s: float
    period: int | None = None
    data_share: float | None = None


class TokenUse(Struct):
    """Tokens of a timed step, all ranks together, by the batches of DataLoaders.

    `computed` are all positions. `padding` are positions that an attention mask excludes, or behind the last of packed
    sequences; `labeled` those with a label that the loss does not ignore. None where batches do not show them.
    `useful` have such a label and are no padding; without labels they are no padding.
    """

    computed: float
    padding: float | None = None
    labeled: float | None = None
    useful: float | None = None

    @property
    def padding_share(self) -> float | None:
        """Padding over all positions; None where unknown."""
        return None if self.padding is None else self.padding / self.computed

    @property
    def most_speedup(self) -> float | None:
        """The most that the throughput of other tokens grows without padding, if a step takes as long as its positions
        say; None where unknown, or where nothing but padding was seen."""
        share = self.padding_share
        return None if share is None or share >= 1 else 1 / (1 - share)


class UsefulTokens(Struct):
    """Tokens of all ranks that train (`TokenUse.useful`), and what a million of them take.

    `per_second` is that of the median timed step, `run_per_second` that of the whole run without perfkit's recording:
    start-up, waits, evaluations and checkpoints included. None where unknown. `energy_per_million` is in J, that of
    timed steps. Costs are in the price's currency, None without a price.
    """

    per_step: float
    per_second: float | None
    run_per_second: float | None
    energy_per_million: Quantity
    cost_per_million: float | None = None
    run_cost_per_million: float | None = None


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

    `data_wait_s` is the wait for data in the median step, `data_wait_mean_s` in the mean. `data_wait_share` is its
    share of all steps' time. `slowdowns` and these waits are the worst rank's; other facts are the first rank's.
    `microbatches` are the backward passes of an optimizer step, None where they may not be microbatches.
    `excluded_steps_s` are untimed steps that contained an evaluation. `data_waits_s` are the waits of the slowest
    rank's timed steps, whose steps are the variant's samples; empty where unknown. `units_per_step` is the number of
    units that all ranks train on in a step, 0 where unknown. `live_log` is set for a continuously watched loop.
    `stacks` is set where Python stacks were sampled. `tokens` is None where batches do not name theirs; `padded_share`
    is the share of padding among the tokens of the model's first calls, None where unknown. `collection_mean_s` is the
    mean time of a timed step in which Python collected garbage, on the worst rank. `wall_time` is that of the first
    rank's whole run, None while it runs, and `goodput` the share of training in it without perfkit's recording.
    `useful` is None where the useful tokens of a step are unknown. `peak_rises` and `peak_source` are those of the rank
    with the highest peak, as its record has them.
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
    padded_share: float | None = None
    peak_rises: tuple[PeakRise, ...] = ()
    peak_source: str = ""
    collection_mean_s: float | None = None
    tokens: TokenUse | None = None
    wall_time: WallTimeParts | None = None
    goodput: float | None = None
    useful: UsefulTokens | None = None
