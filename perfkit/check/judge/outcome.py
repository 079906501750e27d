"""Whether both sides trained at all: a side that does not is worse than any figure."""

from perfkit.analysis.model.suite import Variant
from perfkit.check.judge.thresholds import Threshold
from perfkit.check.result import JudgedQuantity, Verdict
from perfkit.record import RunStatus

OUTCOME = "outcome"
TITLE = "training to the end"
_MUST = Threshold(text="must train", limit=0.0)


def judge_outcome(before: Variant | None, after: Variant | None) -> tuple[JudgedQuantity, ...]:
    """A verdict where a side did not end well (or was skipped); nothing where both did, or nobody knows.

    It fails where the side after does not train, be it that the side before did not either: what cannot be run is no
    pass. It is improved where only the side before did not. What does not apply to this machine cannot be compared.
    """
    if before is None or after is None or (before.status == RunStatus.OK and after.status == RunStatus.OK):
        return ()
    if after.status == RunStatus.OK:
        verdict, side, when = Verdict.IMPROVED, before, "before"
    elif before.status == RunStatus.OK:
        verdict, side, when = Verdict.FAIL, after, "now"
    else:
        verdict = Verdict.NOT_COMPARED if after.status == RunStatus.SKIPPED else Verdict.FAIL
        side, when = after, "both sides"
    reason = f"{when}: {side.status}: {side.reason}" if side.reason else f"{when}: {side.status}"
    return (_make_judgment(verdict, reason),)


def judge_failure(reason: str, *, is_after: bool) -> JudgedQuantity:
    """A side that trained with instruments and then failed while it was timed: `reason` in words."""
    return _make_judgment(Verdict.FAIL if is_after else Verdict.NOT_COMPARED, reason)


def _make_judgment(verdict: Verdict, reason: str) -> JudgedQuantity:
    return JudgedQuantity(
        quantity=OUTCOME,
        title=TITLE,
        unit="",
        more_is_worse=True,
        verdict=verdict,
        reason=reason,
        threshold=_MUST,
        exact=True,
    )
