"""Finds variants that form a sweep over a size, and the point from which step time grows in proportion."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.scaling import Sweep, SweepPoint
from perfkit.analysis.model.suite import Variant
from perfkit.core.record.quantity import get_value
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import parse_technique

# Two points are a line, whatever the curve.
_LEAST_POINTS = 3

# From this exponent on a step is taken to grow in proportion: twice the size takes at least 1.87 times as long.
PROPORTIONAL = 0.9


def find_sweeps(variants: Sequence[Variant]) -> tuple[Sweep, ...]:
    """The sweeps over sizes of a step's work with three values or more.

    Variants form a sweep if their techniques were active and not emulated, if they differ in one number of one
    technique, and if the tokens or samples of a step grow with it.
    """
    families: dict[tuple[str, str, str], dict[float, Variant]] = defaultdict(dict)
    for variant in variants:
        measured = (
            variant.status == RunStatus.OK and isinstance(variant.step_time, MedianEstimate) and variant.units_per_step
        )
        if measured and variant.active is True and not variant.emulation_reason:
            for technique, parameter, value, rest in _list_numeric_parameters(variant):
                families[technique, parameter, rest][value] = variant
    sweeps = (_build_sweep(*key, members) for key, members in families.items() if len(members) >= _LEAST_POINTS)
    return tuple(sweep for sweep in sweeps if sweep is not None)


def _list_numeric_parameters(variant: Variant) -> Iterator[tuple[str, str, float, str]]:
    """Every number above 0 among its techniques' parameters, and the variant's name without it.

    What grows in proportion, which the points are asked for, has no value of 0.
    """
    specs = [parse_technique(label) for label in variant.techniques]
    for place, spec in enumerate(specs):
        for key, value in spec.params.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                others = [*variant.techniques]
                others[place] = others[place].replace(f"{key}={value}", f"{key}=…")
                ranks = "" if variant.world_size == 1 else f"@{variant.world_size}"
                yield spec.name, key, float(value), "+".join(others) + ranks


def _build_sweep(technique: str, parameter: str, rest: str, members: dict[float, Variant]) -> Sweep | None:
    ordered = sorted(members.items())
    units = [variant.units_per_step or 0 for _, variant in ordered]
    if any(after <= before for before, after in pairwise(units)):
        return None
    points: list[SweepPoint] = []
    for value, variant in ordered:
        points.append(_build_point(value, variant, points[-1] if points else None))
    unit = ordered[0][1].throughput_unit.removesuffix("/s").removesuffix("s") or "unit"
    return Sweep(
        technique=technique,
        parameter=parameter,
        variant=rest,
        unit=unit,
        points=tuple(points),
        saturates_at=find_proportional_start(points),
    )


def _build_point(value: float, variant: Variant, before: SweepPoint | None) -> SweepPoint:
    assert isinstance(variant.step_time, MedianEstimate)
    assert variant.units_per_step
    step_s, peak = variant.step_time.value, get_value(variant.peak_allocated)
    return SweepPoint(
        variant=variant.name,
        value=value,
        step_s=step_s,
        unit_s=step_s / variant.units_per_step,
        peak_bytes=peak,
        unit_bytes=None if peak is None else peak / variant.units_per_step,
        growth=None if before is None else math.log(step_s / before.step_s) / math.log(value / before.value),
    )


def find_proportional_start(points: Sequence[SweepPoint]) -> float | None:
    """The value from which on every growth is in proportion, or more than that; None where the last is not."""
    start = None
    for before, after in reversed([*pairwise(points)]):
        if after.growth is None or after.growth < PROPORTIONAL:
            break
        start = before.value
    return start
