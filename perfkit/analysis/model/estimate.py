"""Estimates with their intervals, and comparisons of two."""

from perfkit.analysis.model.verdicts import SpeedVerdict
from perfkit.core.spec import Struct

# Not at the top: results of traces import the definitions above.


class MedianEstimate(Struct, tag="estimate"):
    """A figure over processes: the median of `per_process`, with a confidence interval where it can be given."""

    value: float
    unit: str
    per_process: tuple[float, ...]
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    how: str = "measured"
    source: str = ""


class MissingEstimate(Struct, tag="missing"):
    """A figure that is not known, with the reason."""

    reason: str


class Difference(Struct):
    """A variant against its baseline: `ratio` = variant / baseline of step time, from paired processes; of the
    time of a unit (`Variant.comparison_unit`) where their batches differ.

    `verdict` is `faster`, `slower`, `no difference` or `inconclusive`; `detectable` is the smallest relative
    change that this number of processes could have shown, None with fewer than two. `more_pairs` is how many more would
    make the interval as narrow as was asked for, if they vary as these do; None where it is, or nothing was asked for.
    """

    baseline: str
    ratio: float
    low: float | None
    high: float | None
    verdict: SpeedVerdict
    detectable: float | None
    pairs: int
    more_pairs: int | None = None

    def compute_saved_s(self, step_s: float) -> float:
        """The saving of a step of `step_s`: the paired baseline takes `step_s / ratio` for the same work.

        Step times themselves may be of other rounds than the pairs are, and of other sessions.
        """
        return step_s * (1 / self.ratio - 1)
