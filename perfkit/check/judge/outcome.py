"""Judges whether both sides completed training: a failed run is worse than any figure."""

from perfkit.analysis.model.suite import Variant
from perfkit.check.judge.check_thresholds import Threshold
from perfkit.check.judge.result import JudgedQuantity, Verdict
from perfkit.core.record.rank_record import RunStatus

OUTCOME = "outcome"
TITLE = "training completes"
_MUST = Threshold(text="must complete", limit=0.0)


def judge_outcome(before: Variant | None, after: Variant | None) -> tuple[JudgedQuantity, ...]:
    """A verdict if a side failed or was skipped; nothing if both completed or the outcome is unknown.

    It fails if the after side failed, even if the before side failed too. It is improved if only the before side
    failed. Variants that this machine cannot run are not compared.
    """
    if before is None or after is None or (before.status == RunStatus.OK and after.status == RunStatus.OK):
        return ()
    if after.status == RunStatus.OK:
        verdict, side, when = Verdict.IMPROVED, before, "before"
    elif before.status == RunStatus.OK:
        verdict, side, when = Verdict.FAIL, after, "after"
    else:
        verdict = Verdict.NOT_COMPARED if after.status == RunStatus.SKIPPED else Verdict.FAIL
        side, when = after, "both sides"
    reason = f"{when}: {side.status}: {side.reason}" if side.reason else f"{when}: {side.status}"
    return (_make_judgment(verdict, reason),)


def judge_failure(reason: str, *, is_after: bool) -> JudgedQuantity:
    """The verdict on a side that completed the instrumented run and failed in a timed run, with its `reason`."""
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
