"""Findings on the rises of an attached loop's peak memory."""

from types import SimpleNamespace
from typing import Any

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.suite.findings.loop_peaks import find_loop_peaks
from perfkit.core.record.attached_loop import PeakKind, PeakRise

FIRST = PeakRise(kind="first_step", step=1, steps=1, bytes=1000)


def rise(kind: PeakKind, step: int, size: int, shape: tuple[int, ...] = (8, 512), evaluations: int = 0) -> PeakRise:
    return PeakRise(
        kind=kind,
        step=step,
        steps=1,
        bytes=size,
        input_shape=shape,
        evaluations=evaluations,
        has_new_shape=shape not in ((8, 512), ()),
    )


def find(*rises: PeakRise) -> dict[str, Finding]:
    loop = SimpleNamespace(peak_rises=rises, peak_source="allocator")
    suite: Any = SimpleNamespace(loops=[SimpleNamespace(name="train", loop=loop)])
    return {finding.id: finding for finding in find_loop_peaks(suite)}


def test_an_evaluation_above_training() -> None:
    found = find(FIRST, rise("step", 2, 2000), rise("evaluation", 9, 2800, evaluations=32))
    assert [*found] == ["memory.evaluation_peak"]
    figures = found["memory.evaluation_peak"].figures
    assert (figures["ratio"], figures["step"], figures["evaluations"]) == (1.4, 9, 32)


def test_an_evaluation_is_held_against_training_not_against_evaluations() -> None:
    found = find(FIRST, rise("step", 2, 2000), rise("evaluation", 9, 2800), rise("evaluation", 19, 4000))
    assert found["memory.evaluation_peak"].figures["ratio"] == 2


def test_an_evaluation_that_needs_little_more() -> None:
    assert not find(FIRST, rise("step", 2, 2000), rise("evaluation", 9, 2080))


def test_the_step_with_the_longest_batch() -> None:
    found = find(FIRST, rise("step", 2, 2000), rise("step", 6, 2500, (8, 1024)), rise("step", 40, 5000, (8, 4096)))
    assert [*found] == ["memory.longest_batch"]
    figures = found["memory.longest_batch"].figures
    assert (figures["step"], figures["ratio"]) == (40, 2)
    assert "4,096" in found["memory.longest_batch"].title


def test_the_first_shapes_are_no_longer_batch() -> None:
    assert not find(FIRST, rise("step", 2, 2000))


def test_growth_at_one_shape() -> None:
    steady = [rise("step", step, 2000 + 100 * step) for step in range(2, 7)]
    found = find(FIRST, *steady)
    assert [*found] == ["memory.growing_peak"]
    assert found["memory.growing_peak"].figures["bytes_per_step"] == 100
    assert not find(FIRST, *steady[:3])


def test_what_came_after_the_recorded_steps() -> None:
    found = find(FIRST, rise("step", 2, 2000), rise("unwatched", 30, 3000, ()))
    assert [*found] == ["memory.late_peak"]
    assert found["memory.late_peak"].figures["ratio"] == 1.5
