"""Events that a watch reports about steps."""

from dataclasses import dataclass

from perfkit.core.units import format_percent, format_seconds

OUTLIER = "outlier"
DRIFT = "drift"
TRACE = "trace"
END = "end"


@dataclass(frozen=True)
class StepEvent:
    """A step that took unusually long, or steps that have become slower.

    Attributes:
        kind: `make_outlier_event` or `make_drift_event`.
        step: the step, or the last of those that are slower.
        step_s: seconds that it took, or their median.
        usual_s: the median that it is compared with.
        text: the same in words.
    """

    kind: str
    step: int
    step_s: float
    usual_s: float
    text: str


def make_outlier_event(step: int, step_s: float, usual_s: float, untold: int) -> StepEvent:
    """`untold` counts the outliers since the last message."""
    more = f"; {untold} more since the last message" if untold else ""
    took, usual = format_seconds(step_s), format_seconds(usual_s)
    text = f"step {step} took {took}, {step_s / usual_s:.1f} times the usual {usual}{more}"
    return StepEvent(OUTLIER, step, step_s, usual_s, text)


def make_drift_event(step: int, step_s: float, usual_s: float, steps: int) -> StepEvent:
    """Make a drift event; `steps` is the number of slower steps in a row."""
    text = (
        f"steps take {format_percent(step_s / usual_s - 1, 0)} longer: {format_seconds(step_s)} over the last {steps} "
        "steps, "
        f"{format_seconds(usual_s)} before"
    )
    return StepEvent(DRIFT, step, step_s, usual_s, text)
