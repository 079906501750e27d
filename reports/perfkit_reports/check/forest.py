"""Where a judged quantity lies between no change and its threshold, as a small bar in its row of a table.

All rows have one scale: 0 is no change, 1 the threshold, and to the right is worse, so that a look down the column
tells what is beyond.
"""

import math
from dataclasses import dataclass

from perfkit.check.judge.thresholds import margin
from perfkit.check.result import Judged, Verdict

WIDTH, HEIGHT = 176, 26
_ZERO, _UNIT, _EDGE = 60.0, 40.0, 7.0

# A shape each, so that no colour is needed to tell verdicts apart.
_SHAPES = {Verdict.FAIL: "cross", Verdict.INCONCLUSIVE: "open", Verdict.IMPROVED: "triangle"}


@dataclass(frozen=True)
class Forest:
    """A row's bar: places in pixels. `low` and `high` None where nothing was estimated; `beyond` says that the estimate
    lies outside of the drawing, to the `left` or to the `right`."""

    point: float
    low: float | None
    high: float | None
    shape: str
    beyond: str
    words: str

    zero = _ZERO
    limit = _ZERO + _UNIT
    width = WIDTH
    height = HEIGHT


def forest(judged: Judged, words: str) -> Forest | None:
    """None where there is no threshold, or no figure to hold against it. `words` say the same for those who listen."""
    allowed = _allowed(judged)
    worse = _worsening(judged)
    if allowed is None or worse is None:
        return None
    place = _place(worse, allowed)
    ends = [_place(_worse(judged, end), allowed) for end in (judged.low, judged.high) if end is not None]
    inside = _clipped(place)
    return Forest(
        point=inside,
        low=_clipped(min(ends)) if len(ends) == 2 else None,
        high=_clipped(max(ends)) if len(ends) == 2 else None,
        shape=_SHAPES.get(judged.verdict, "dot"),
        beyond="" if inside == place else "right" if place > inside else "left",
        words=words,
    )


def _allowed(judged: Judged) -> float | None:
    """The change that is allowed, in the terms of `_worsening`: 0 or more."""
    if judged.threshold is None:
        return None
    if judged.before is None:
        return judged.threshold.limit
    return (
        _absolute(judged)
        if not judged.before
        else margin(judged.threshold, judged.before, more_is_worse=judged.more_is_worse)
    )


def _worsening(judged: Judged) -> float | None:
    if judged.after is None:
        return None
    if judged.before is None:
        return judged.after
    if not judged.before:
        return _worse(judged, judged.after)
    return None if judged.change is None else _worse(judged, judged.change)


def _absolute(judged: Judged) -> float | None:
    assert judged.threshold is not None
    return judged.threshold.limit if judged.threshold.limit is not None else judged.threshold.change or 0.0


def _worse(judged: Judged, change: float) -> float:
    return change if judged.more_is_worse else -change


def _place(worse: float, allowed: float) -> float:
    if allowed <= 0 or not math.isfinite(allowed):
        worse, allowed = (math.copysign(math.inf, worse) if worse and allowed <= 0 else 0.0), 1.0
    return _ZERO + _UNIT * worse / allowed


def _clipped(place: float) -> float:
    return min(max(place, _EDGE), WIDTH - _EDGE)
