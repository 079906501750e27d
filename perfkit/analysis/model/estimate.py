"""Estimates with their intervals, comparisons of two, and the provenance of a figure."""

from typing import Literal

from perfkit.core.spec import Struct

SpeedVerdict = Literal["faster", "slower", "no difference", "inconclusive"]
ParityVerdict = Literal["equal", "within tolerance", "differs", "not comparable", "unknown"]
ClaimOutcome = Literal["active", "in part", "not active", "already true", "unknown"]
Fit = Literal["fits", "may fit", "does not fit", "unknown"]

SPEED_VERDICTS: dict[SpeedVerdict, str] = {
    "faster": "The 95 % interval of the step time ratio lies below 1.",
    "slower": "The 95 % interval lies above 1.",
    "no difference": "The interval includes 1 and excludes a relevant change.",
    "inconclusive": "The interval includes both 1 and a relevant change.",
}
PARITY_VERDICTS: dict[ParityVerdict, str] = {
    "equal": "All losses are equal to the baseline's.",
    "within tolerance": "The losses differ by no more than the technique's tolerance.",
    "differs": "They differ by more, or one is NaN or infinite.",
    "not comparable": "The technique changes what the loss is.",
    "unknown": "No losses were recorded on one side.",
}
CLAIM_OUTCOMES: dict[ClaimOutcome, str] = {
    "active": "The claim holds.",
    "in part": "Less than nine tenths of what was to change did.",
    "not active": "The claim does not hold.",
    "already true": "The claim holds for the baseline too, so it shows no effect.",
    "unknown": "The fact behind the claim was not recorded.",
}
FITS: dict[Fit, str] = {
    "fits": "The predicted memory lies within the limit.",
    "may fit": "The limit lies within the predicted interval.",
    "does not fit": "The predicted memory lies above the limit.",
    "unknown": "The memory or the limit is unknown.",
}


class Provenance(Struct):
    """The origin of a figure of the report."""

    figure: str
    how: str
    detail: str


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
