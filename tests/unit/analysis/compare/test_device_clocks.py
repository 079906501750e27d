"""Clocks of a GPU during timed steps: their summary, what is found in them, and what comparisons say."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.comparison import compare_runs
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.record.environment import DeviceSample
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from tests.fixtures.suites import record, spec, write_run, write_suite_file

MAX = 1.98e9
CAPPED = ("power cap",)


def samples(*clocks: float, limits: tuple[str, ...] | None = (), highest: float | None = MAX) -> list[DeviceSample]:
    return [
        DeviceSample(time_s=0.1 * place, sm_clock_hz=clock * 1e6, sm_clock_max_hz=highest, clock_limits=limits)
        for place, clock in enumerate(clocks)
    ]


def write_suite(folder: Path, variants: dict[str, Sequence[Sequence[DeviceSample]]]) -> Path:
    """A suite with one run of each variant, whose ranks have these readings."""
    entries, names = [], []
    for name, ranks in variants.items():
        records = [
            record(rank=rank, world_size=len(ranks), device_samples=tuple(readings))
            for rank, readings in enumerate(ranks)
        ]
        run_spec = spec(name, world_size=len(ranks))
        entries.append(write_run(folder, run_spec, 0, records, RunResult(status=RunStatus.OK)))
        names.append(run_spec.variant)
    write_suite_file(folder, names, entries)
    return folder


def analyzed(folder: Path, **variants: Sequence[Sequence[DeviceSample]]) -> Analysis:
    return analyze_suite(write_suite(folder, variants))


def figures(analysis: Analysis, id: str) -> list[tuple[str, dict[str, float]]]:
    return [(finding.variant, finding.figures) for finding in analysis.findings if finding.id == id]


def test_the_median_of_readings_at_work(tmp_path: Path) -> None:
    idle = samples(345, limits=("idle",))
    (variant,) = analyzed(tmp_path, baseline=[[*samples(1410, 1425, 1395, limits=CAPPED), *idle]]).variants
    clocks = variant.clocks
    assert clocks is not None
    assert (clocks.sm_hz, clocks.low_hz, clocks.high_hz, clocks.max_hz) == (1410e6, 1395e6, 1425e6, MAX)
    assert (clocks.readings, clocks.limits) == (3, {"power cap": 1.0})


def test_a_device_without_work_or_clock_has_none(tmp_path: Path) -> None:
    readings = [*samples(345, limits=("idle",)), DeviceSample(time_s=1.0, sm_clock_hz=345e6, utilization=0.0)]
    (variant,) = analyzed(tmp_path, baseline=[[*readings, DeviceSample(time_s=2.0)]]).variants
    assert variant.clocks is None


def test_the_rank_with_the_lowest_clock(tmp_path: Path) -> None:
    (variant,) = analyzed(tmp_path, baseline=[samples(1980), samples(1500, limits=CAPPED)]).variants
    assert variant.clocks is not None
    assert (variant.clocks.rank, variant.clocks.sm_hz) == (1, 1500e6)


def test_a_capped_clock_is_found_once_with_its_reason(tmp_path: Path) -> None:
    capped = samples(1410, 1410, limits=CAPPED)
    analysis = analyzed(tmp_path, baseline=[capped], amp=[capped])
    assert figures(analysis, "clock.limited") == [
        ("baseline", {"clock_hz": 1410e6, "highest_clock_hz": MAX, "limited_share": 1.0, "readings": 2, "variants": 2})
    ]
    assert figures(analysis, "comparison.clocks") == []


@pytest.mark.parametrize(
    "readings",
    [
        samples(1410, limits=()),  # no reason: many devices never reach their highest clock
        samples(1410, limits=None),  # the driver reports no reasons
        samples(1410, limits=CAPPED, highest=None),
        samples(1965, limits=CAPPED),
        [],
    ],
)
def test_clocks_that_are_not_known_to_be_limited(tmp_path: Path, readings: list[DeviceSample]) -> None:
    assert figures(analyzed(tmp_path, baseline=[readings]), "clock.limited") == []


def test_a_variant_at_another_clock_than_its_baseline(tmp_path: Path) -> None:
    analysis = analyzed(tmp_path, baseline=[samples(1980)], amp=[samples(1755, limits=CAPPED)])
    assert figures(analysis, "comparison.clocks") == [("amp", {"clock_hz": 1755e6, "baseline_clock_hz": 1980e6})]
    assert [variant for variant, _ in figures(analysis, "clock.limited")] == ["amp"]


@pytest.mark.parametrize(("clock", "notes"), [(1410, ["comparison.gpu_clock"]), (1965, [])])
def test_a_comparison_of_runs_says_that_clocks_differ(tmp_path: Path, clock: float, notes: list[str]) -> None:
    first = write_suite(tmp_path / "first", {"baseline": [samples(1980)]})
    second = write_suite(tmp_path / "second", {"baseline": [samples(clock, limits=CAPPED)]})
    comparison = compare_runs([first, second])
    assert [note.id for note in comparison.warnings] == notes
    (amounts,) = [figure.amounts for figure in comparison.figures if figure.title == "GPU clock"]
    assert [amount.value for amount in amounts] == [1980e6, clock * 1e6]
