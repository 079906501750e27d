"""Whether it fits, in words."""

import pytest

from perfkit.analysis.model.plan import Interval, NonTensorMemory, PlannedPeak, PlannedVariant
from perfkit.plan.target.target import CPU, parse_target
from perfkit.plan.variants.verdict import check_fit, format_verdict, judge_fit
from tests.fixtures.figures import list_figures

MIB, GIB = 2**20, 2**30


def gib(low: float, value: float, high: float) -> Interval:
    return Interval(value=value * GIB, low=low * GIB, high=high * GIB)


@pytest.mark.parametrize(
    ("needed", "limit", "answer", "said"),
    [
        (gib(61, 63, 66), 80, True, "fits: 61 to 66 GiB of 80"),
        (gib(78.11, 80, 83.42), 80, None, "may fit: 78.11 to 83.42 GiB of 80"),
        (gib(90, 92, 95), 80, False, "does not fit: over by at least 10.0 GiB"),
        (gib(92, 92, 92), 80, False, "does not fit: over by 12.0 GiB"),
        (gib(79.9, 80, 80), 80, True, "fits: 80 GiB of 80"),
        (gib(0.2, 0.25, 0.3), 0.5, True, "fits: 205 to 307 MiB of 512"),
        (gib(5, 5, 5), 5.5, True, "fits: 5.0 GiB of 5.5"),
    ],
)
def test_the_sentence(needed: Interval, limit: float, answer: bool | None, said: str) -> None:
    assert check_fit(needed, limit * GIB) is answer
    assert format_verdict(needed, limit * GIB) == said


def variant(peak: int, beyond: int) -> PlannedVariant:
    bounds = Interval(value=beyond, low=0, high=beyond)
    return PlannedVariant(
        name="amp",
        world_size=1,
        peak_allocated_bytes=PlannedPeak(value=peak, low=peak, high=peak, phase="forward", categories={}),
        outside_allocator=(NonTensorMemory(name="context", bytes=bounds, source="a book"),),
    )


def test_what_is_needed_is_the_peak_and_all_beyond_it() -> None:
    found = judge_fit(variant(22 * GIB, 1 * GIB), parse_target("rtx-4090", None))
    assert found.needed_bytes == gib(22, 23, 23)
    assert (found.fits, found.fit) == (True, "fits")
    assert list_figures(found.verdict) == ["22", "23 GiB", "24"]


def test_without_a_limit_nothing_is_said() -> None:
    assert judge_fit(variant(GIB, 0), CPU) == variant(GIB, 0)
    assert variant(GIB, 0).fit == "unknown"
    unknown = PlannedVariant(name="amp", world_size=1)
    assert judge_fit(unknown, parse_target("rtx-4090", None)) == unknown
