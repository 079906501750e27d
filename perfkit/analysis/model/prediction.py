"""Predicted and measured figures of a variant."""

from perfkit.analysis.model.plan import Interval
from perfkit.core.spec import Struct


class PredictedFigure(Struct):
    """A figure as predicted and as measured. `error` is relative: 0.1 where a tenth too much was predicted."""

    predicted: Interval
    measured: float
    error: float

    @property
    def within(self) -> bool:
        """True if the measurement lies within the predicted bounds."""
        return self.predicted.low <= self.measured <= self.predicted.high


class PredictedPart(Struct):
    """A part of a figure: bytes of a category, seconds of a class of ops. `error` is a share of the measured whole."""

    name: str
    predicted: float
    measured: float
    error: float


class Prediction(Struct):
    """A variant's plan compared with its runs. Fields without a prediction or measurement are None or empty.

    `planned_before_run` is whether it was planned before the first run began. `reason` is why its memory was not
    predicted. `peak` is the peak of torch's allocator, in bytes, and `categories` are the categories at the peak.
    `process` is that plus all memory outside the allocator, on a GPU. `step` is in seconds. `parts` are those of the
    traced step, which tracing slows down. `planned_eagerly` is set where the step was planned in eager mode and ran
    compiled. `step_reason` is why the step is not compared with the measurement. `basis` names, for an attached loop,
    the planned variant and the properties that both share.
    """

    planned_at: str
    planned_before_run: bool
    reason: str = ""
    peak: PredictedFigure | None = None
    categories: tuple[PredictedPart, ...] = ()
    process: PredictedFigure | None = None
    step: PredictedFigure | None = None
    parts: tuple[PredictedPart, ...] = ()
    planned_eagerly: bool = False
    step_reason: str = ""
    basis: str = ""

    @property
    def furthest_category(self) -> PredictedPart | None:
        """The category whose prediction is the furthest off."""
        return max(self.categories, key=lambda part: abs(part.error), default=None)
