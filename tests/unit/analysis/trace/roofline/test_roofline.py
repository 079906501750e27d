import math
from typing import NamedTuple

import numpy as np
import pytest

from perfkit.analysis.trace.roofline.roofline import RooflineLimit, compute_limits
from perfkit.analysis.trace.roofline.roofs import Roofs, build_roofs
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.devices.ceilings.ceiling import CacheCapacity, Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from tests.fixtures.suites import CEILINGS, ENVIRONMENT, changed

ROOFS = build_roofs(CEILINGS, ENVIRONMENT)  # 1e11 FLOP/s in fp32, 1e10 B/s from memory, 5e10 B/s from L3


class Work(NamedTuple):
    flops: float | None
    moved: float | None
    unit: ComputeUnit = ComputeUnit.MATRIX
    dtype: str = "fp32"


work = Work


def limit(work: Work, seconds: float, roofs: Roofs, calls: float = 1.0) -> RooflineLimit:
    """The limit of a single group."""
    peak = roofs.compute(work.unit, work.dtype)
    rate = math.nan if peak is None else peak.value
    compute_s = math.nan if work.flops is None else work.flops / rate if work.flops else 0.0
    moved = math.nan if work.moved is None else work.moved
    return compute_limits(*(np.array([value]) for value in (compute_s, moved, seconds, calls)), roofs)[0]


def test_the_slower_of_arithmetic_and_traffic_bounds() -> None:
    compute = limit(work(1e9, 1e6), 0.02, ROOFS)
    assert (compute.attainable_s, compute.bound) == (pytest.approx(0.01), "compute")
    memory = limit(work(1e6, 1e9), 0.2, ROOFS)
    assert (memory.attainable_s, memory.bound, memory.level) == (pytest.approx(0.1), "memory", "memory")


def test_faster_than_memory_is_held_against_the_cache_and_faster_than_all_is_an_error() -> None:
    cached = limit(work(1e6, 1e9), 0.05, ROOFS)
    assert (cached.attainable_s, cached.level, cached.above_roof) == (pytest.approx(0.02), "l3", False)
    assert limit(work(1e6, 1e9), 0.01, ROOFS).above_roof
    assert limit(work(1e9, 1e3), 0.005, ROOFS).above_roof
    assert not limit(work(1e9, 1e3), 0.0099, ROOFS).above_roof  # within the tolerance


def cached(l2: float | None, capacity: float | None) -> Roofs:
    """1e10 B/s from memory, and an L2 of so many B/s and bytes."""
    bandwidths = {CeilingLevel.MEMORY: 1e10, **({} if l2 is None else {CeilingLevel.L2: l2})}
    return Roofs(
        DeviceCeilings(
            device="cuda",
            device_name="",
            fingerprint="",
            ceilings=tuple(
                Ceiling(level=level, dtype=None, value=value, unit="B/s", kind=CeilingKind.DATASHEET, source="")
                for level, value in bandwidths.items()
            ),
            caches=()
            if capacity is None
            else (CacheCapacity(level=CeilingLevel.L2, capacity_bytes=capacity, source=""),),
        ),
        "cuda",
    )


@pytest.mark.parametrize(
    ("l2", "capacity", "seconds", "calls", "attainable_s", "level", "above_roof"),
    [
        (None, None, 0.05, 1, 0.1, "memory", True),
        (None, 1e9, 0.05, 1, 0.05, "l2", False),  # all of it fits: as fast as it was
        (None, 6e8, 0.05, 1, 0.05, "l2", False),  # 4e8 bytes from memory take 0.04 s
        (None, 4e8, 0.05, 1, 0.1, "memory", True),  # 6e8 bytes take 0.06 s
        (None, 1e8, 0.05, 10, 0.05, "l2", False),  # 1e8 bytes a call
        (5e10, None, 0.05, 1, 0.02, "l2", False),
        (5e10, 1e9, 0.05, 1, 0.02, "l2", False),
        (5e10, 1e9, 0.01, 1, 0.02, "l2", True),
        (5e10, 4e8, 0.05, 1, 0.1, "memory", True),
        (5e10, 4e8, 0.2, 1, 0.1, "memory", False),
    ],
)
def test_a_cache_serves_what_it_holds(
    l2: float | None,
    capacity: float | None,
    seconds: float,
    calls: float,
    attainable_s: float,
    level: str,
    above_roof: bool,
) -> None:
    found = limit(work(0.0, 1e9, ComputeUnit.VECTOR), seconds, cached(l2, capacity), calls)
    assert (found.attainable_s, found.level, found.above_roof) == (pytest.approx(attainable_s), level, above_roof)
    assert found.bound == "memory"


def test_calls_too_small_to_matter_are_bound_by_latency() -> None:
    assert limit(work(64, 512), 50e-6, ROOFS).bound == "latency"
    assert limit(work(64e3, 512e3), 500e-6, ROOFS, calls=1.0).bound == "memory"
    assert limit(work(64e3, 512e3), 50e-3, ROOFS, calls=1000.0).bound == "latency"


def test_without_a_cost_or_a_ceiling_nothing_is_claimed() -> None:
    for unknown in (
        limit(work(None, 1e6), 1.0, ROOFS),
        limit(work(1e6, None), 1.0, ROOFS),
        limit(work(1e6, 1e6, dtype="fp64"), 1.0, ROOFS),
        limit(work(1e6, 1e6), 1.0, build_roofs(None, ENVIRONMENT)),
        limit(work(1e6, 1e6), 1.0, build_roofs(CEILINGS, changed(ENVIRONMENT, threads=1))),
        limit(work(1e6, 1e6), 1.0, build_roofs(CEILINGS, changed(ENVIRONMENT, device="cuda"))),
    ):
        assert (unknown.attainable_s, unknown.bound) == (None, "unknown")


def test_work_without_flops_and_bytes_is_held_against_nothing_where_no_roof_is_known() -> None:
    assert limit(work(0.0, 0.0), 1.0, Roofs(None, "cuda")).attainable_s is None
    assert limit(work(0.0, 0.0), 1.0, build_roofs(CEILINGS, ENVIRONMENT)).attainable_s == 0.0
