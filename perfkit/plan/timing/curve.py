"""Measured over least time of calls of one kind, as a curve over their size; all in logarithms of seconds."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, hypot, log, sqrt
from typing import NamedTuple

# Sizes within a factor of four are grouped.
SIZE = log(4)
# Over so many sizes below the smallest measured calls what they were slower by fades; above the largest as many later.
_FADES = 3 * SIZE


class CurvePoint(NamedTuple):
    """Calls of about one size: their least and their measured time, how far single calls lie apart, what they count
    for, and of how many kinds of calls they are."""

    least: float
    taken: float
    spread: float
    weight: float
    kinds: int = 1


@dataclass(frozen=True)
class EfficiencyCurve:
    """`least` rises, `taken` never falls; between its points it is straight.

    `beyond` goes on at the ends: large calls are slower or faster than that by as much as the largest was; small ones
    are ever less slower, since what a call costs at least is the same for all, and so are calls of entirely other sizes
    than the largest, of which it tells nothing. Of a curve without, small calls take
    what the smallest took, and large ones are as efficient as the largest. `spread` is the standard deviation of what
    was measured around each point.
    """

    least: tuple[float, ...]
    taken: tuple[float, ...]
    spread: tuple[float, ...]
    beyond: "EfficiencyCurve | None" = None

    def at(self, least: float) -> float:
        """Time of a call with this roofline time."""
        inside = min(max(least, self.least[0]), self.least[-1])
        taken = self._interpolate_values(self.taken, inside)
        if self.beyond is None:
            return taken + max(least - inside, 0.0)
        if least == inside:  # what the curve beyond says cancels out, and asking it twice doubles with each curve
            return taken
        slower = taken - self.beyond.at(inside)
        if slower > 0:
            away = inside - least if least < inside else least - inside - _FADES
            slower *= max(0.0, 1 - max(0.0, away) / _FADES)
        there = slower + self.beyond.at(least)
        return there if least < inside else max(taken, there)

    def get_spread(self, least: float) -> float:
        """Standard deviation of that time; outside the measured range, including that of the extending curve."""
        inside = min(max(least, self.least[0]), self.least[-1])
        spread = self._interpolate_values(self.spread, inside)
        return (
            spread
            if self.beyond is None or abs(least - inside) < SIZE
            else hypot(spread, self.beyond.get_spread(least))
        )

    def _interpolate_values(self, values: Sequence[float], least: float) -> float:
        after = bisect_right(self.least, least)
        if after == len(self.least):
            return values[-1]
        left, right = self.least[after - 1], self.least[after]
        return values[after - 1] + (values[after] - values[after - 1]) * (least - left) / (right - left)


def average_by_size(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Means by size, with weight 1 each."""
    return [_average_points(some)._replace(weight=1.0) for some in _group_by_size(points)]


def fit_curve(points: Sequence[CurvePoint], beyond: EfficiencyCurve | None) -> EfficiencyCurve:
    """The curve through the means by size; falling neighbors are pooled.

    A single call tells nothing of how far others may lie apart: what is `beyond` counts as one more.
    """
    sizes = _group_by_size(points)
    knots = _pool_falling([_average_points(some) for some in sizes])
    return EfficiencyCurve(
        tuple(knot.least for knot in knots),
        tuple(knot.taken for knot in knots),
        tuple(_compute_spread(some, knot, beyond) for some, knot in zip(sizes, knots, strict=True)),
        beyond,
    )


def _group_by_size(points: Sequence[CurvePoint]) -> list[list[CurvePoint]]:
    sizes: dict[int, list[CurvePoint]] = {}
    for point in points:
        sizes.setdefault(floor(point.least / SIZE), []).append(point)
    return [sizes[size] for size in sorted(sizes)]


def _compute_spread(points: Sequence[CurvePoint], knot: CurvePoint, beyond: EfficiencyCurve | None) -> float:
    """Deviation of measured calls from the efficiency at a point of the curve."""
    square = _compute_square(points, knot.taken - knot.least)
    if beyond is not None:
        square = (knot.kinds * square + beyond.get_spread(knot.least) ** 2) / (knot.kinds + 1)
    return sqrt(square)


def _compute_square(points: Sequence[CurvePoint], ratio: float) -> float:
    total = sum(point.weight for point in points)
    return sum(p.weight * ((p.taken - p.least - ratio) ** 2 + p.spread**2) for p in points) / total


def _average_points(points: Sequence[CurvePoint]) -> CurvePoint:
    least, times = (_average(points, [getattr(p, name) for p in points]) for name in ("least", "taken"))
    total = sum(point.weight for point in points)
    return CurvePoint(least, times, sqrt(_compute_square(points, times - least)), total, sum(p.kinds for p in points))


def _average(points: Sequence[CurvePoint], values: Iterable[float]) -> float:
    total = sum(point.weight for point in points)
    return sum(point.weight * value for point, value in zip(points, values, strict=True)) / total


def _average_taken(points: Sequence[CurvePoint]) -> float:
    return _average(points, [point.taken for point in points])


def _pool_falling(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Pool falling neighbors to their common mean (pool adjacent violators), each at its own size."""
    pools: list[tuple[float, list[CurvePoint]]] = []  # with their means
    for point in points:
        pools.append((_average_taken([point]), [point]))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            pooled = pools[-2][1] + pools[-1][1]
            pools[-2:] = [(_average_taken(pooled), pooled)]
    return [point._replace(taken=mean) for mean, pool in pools for point in pool]
