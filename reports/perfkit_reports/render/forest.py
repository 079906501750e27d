"""Where a mark lies in its small drawing, in pixels. All rows of a table have one scale: 0 is no change, 1 what is
allowed, and to the right is worse, so that a look down the column tells what is beyond."""

import math
from dataclasses import dataclass

from perfkit_reports.document.cells import Mark

_WIDTH, _HEIGHT = 176, 26
_ZERO, _UNIT, _EDGE = 60.0, 40.0, 7.0


@dataclass(frozen=True)
class Place:
    """`low` and `high` are None where nothing was estimated; `beyond` says that the point lies outside of the drawing,
    to the `left` or to the `right`."""

    point: float
    low: float | None
    high: float | None
    beyond: str

    zero = _ZERO
    limit = _ZERO + _UNIT
    width = _WIDTH
    height = _HEIGHT


def place(mark: Mark) -> Place:
    wanted = _ZERO + _UNIT * mark.at
    point = _inside(mark.at)
    return Place(
        point=point,
        low=None if mark.low is None else _inside(mark.low),
        high=None if mark.high is None else _inside(mark.high),
        beyond="" if math.isclose(point, wanted) else "right" if wanted > point else "left",
    )


def _inside(at: float) -> float:
    return min(max(_ZERO + _UNIT * at, _EDGE), _WIDTH - _EDGE)
