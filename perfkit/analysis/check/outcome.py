"""Whether both sides trained at all: a side that does not is worse than any figure."""

from perfkit.analysis.check.result import Judged, Verdict
from perfkit.analysis.check.thresholds import Threshold
from perfkit.analysis.result import Variant
from perfkit.record import Status

OUTCOME = "outcome"
TITLE = "training to the end"
_MUST = Threshold(text="must train", limit=0.0)


def judge_outcome(before: Variant | None, after: Variant | None) -> tuple[Judged, ...]:
    """A verdict where a side did not end well (or was skipped); nothing where both did, or nobody knows.

    It fails where only the side after does not train, and is improved where only the side before did not. Where neither
    trains nothing can be compared.
    """
    if before is None or after is None or (before.status == Status.OK and after.status == Status.OK):
        return ()
    if before.status == Status.OK:
        verdict, side = Verdict.FAIL, after
    elif after.status == Status.OK:
        verdict, side = Verdict.IMPROVED, before
    else:
        verdict, side = Verdict.NOT_COMPARED, after
    when = {Verdict.FAIL: "now", Verdict.IMPROVED: "before", Verdict.NOT_COMPARED: "both sides"}[verdict]
    reason = f"{when}: {side.status}: {side.reason}" if side.reason else f"{when}: {side.status}"
    return (_judged(verdict, reason),)


def judge_failure(reason: str, *, is_after: bool) -> Judged:
    """A side that trained with instruments and then failed while it was timed: `reason` in words."""
    return _judged(Verdict.FAIL if is_after else Verdict.NOT_COMPARED, reason)


def _judged(verdict: Verdict, reason: str) -> Judged:
    return Judged(
        quantity=OUTCOME,
        title=TITLE,
        unit="",
        more_is_worse=True,
        verdict=verdict,
        reason=reason,
        threshold=_MUST,
        exact=True,
    )
