"""Scaling efficiency by hand, and what is not said of it."""

import math
from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.estimate import MissingEstimate
from perfkit.analysis.model.plan import Interval, PlannedVariant, StepTime
from perfkit.analysis.model.scaling import Efficiency, ScalingCurve, SuiteScaling
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.suite.prediction import SuitePlan
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.suite.suite_scaling import build_scaling
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.sampling import compute_difference_interval
from perfkit.core.spec import Scaling
from perfkit.store.suite_reader import read_suite
from tests.fixtures.figures import list_figures
from tests.fixtures.scaled_suites import Steps, scaled_suite
from tests.fixtures.suites import record, write_suite

NO_PLAN = SuitePlan()
STEPS: Steps = {
    "baseline": [1.0, 1.0],
    "baseline@2": [1.25, 1.25],
    "ddp@2": [1.2, 1.2],
    "baseline@4": [2.0, 2.0],
    "ddp@4": [1.6, 1.6],
}


def found(folder: Path, steps: Steps = STEPS, scaling: Scaling = "weak", **more) -> SuiteScaling:  # type: ignore[no-untyped-def]
    scaled = analyze_suite(scaled_suite(folder, steps, scaling, **more)).scaling
    assert scaled is not None
    return scaled


def curve(scaled: SuiteScaling, name: str) -> ScalingCurve:
    return next(each for each in scaled.curves if each.name == name)


@pytest.mark.parametrize(
    ("scaling", "baseline", "ddp", "against"),
    [
        ("weak", [None, 1 / 1.25, 1 / 2], [None, 1.2 / 1.6], [1 / 1.2, 1 / 1.6]),
        ("strong", [None, 1 / 2.5, 1 / 8], [None, 2 * 1.2 / (4 * 1.6)], [1 / 2.4, 1 / 6.4]),
    ],
)
def test_efficiency_is_of_the_fewest_ranks_and_of_the_baseline_on_one(
    tmp_path: Path, scaling: Scaling, baseline: list[float], ddp: list[float], against: list[float]
) -> None:
    scaled = found(tmp_path, scaling=scaling)
    assert scaled.mode == scaling

    def values(name: str, which: str) -> list[float | None]:
        figures = [getattr(point, which) for point in curve(scaled, name).points]
        return [figure.value if isinstance(figure, Efficiency) else figure for figure in figures]

    assert values("baseline", "efficiency") == [None, *map(pytest.approx, baseline[1:])]
    assert values("ddp", "efficiency") == [None, *map(pytest.approx, ddp[1:])]
    assert values("ddp", "baseline_efficiency") == [*map(pytest.approx, against)]
    assert curve(scaled, "ddp").points[1].efficiency.reference == "ddp@2"


def test_the_interval_is_of_processes_and_of_both_sizes(tmp_path: Path) -> None:
    steps = {"baseline": [1.0, 1.1, 1.3], "baseline@2": [2.0, 2.4]}
    efficiency = curve(found(tmp_path, steps), "baseline").points[1].efficiency
    assert isinstance(efficiency, Efficiency)
    before, after = ([math.log(each) for each in steps[name]] for name in ("baseline", "baseline@2"))
    bounds = compute_difference_interval(before, after)
    assert bounds is not None
    assert (efficiency.low, efficiency.high) == pytest.approx((math.exp(-bounds[1]), math.exp(-bounds[0])))
    assert efficiency.low < efficiency.value < efficiency.high
    assert efficiency.processes == (3, 2)


def test_one_process_has_no_interval(tmp_path: Path) -> None:
    efficiency = curve(found(tmp_path, {"baseline": [1.0], "baseline@2": [1.6]}), "baseline").points[1].efficiency
    assert isinstance(efficiency, Efficiency)
    assert (efficiency.value, efficiency.low, efficiency.high) == (pytest.approx(1 / 1.6), None, None)


def test_the_machine_of_another_day_is_none_to_compare_with(tmp_path: Path) -> None:
    apart = found(tmp_path / "apart", {"baseline": [1.0, 1.0]}, later={"baseline@2": [1.6, 1.6]})
    missing = curve(apart, "baseline").points[1].efficiency
    assert isinstance(missing, MissingEstimate)
    assert "session" in missing.reason
    again = found(tmp_path / "again", {"baseline": [1.0, 1.0]}, later={"baseline": [2.0], "baseline@2": [2.5]})
    both = curve(again, "baseline").points[1].efficiency
    assert isinstance(both, Efficiency)
    assert (both.value, both.processes) == (pytest.approx(0.8), (1, 1))


def test_other_batches_are_not_held_against_the_baseline(tmp_path: Path) -> None:
    scaled = found(tmp_path, units={"ddp@2": 16, "ddp@4": 16})
    points = curve(scaled, "ddp").points
    assert all("batches" in point.baseline_efficiency.reason for point in points)
    assert isinstance(points[1].efficiency, Efficiency)


def test_cores_that_are_fewer_than_the_threads_are_told(tmp_path: Path) -> None:
    assert found(tmp_path / "enough", cores=4).notes == ()
    (note,) = found(tmp_path / "few", cores=2).notes
    assert (note.id, list_figures(note.text)) == ("scaling.few_cores", ["4", "1", "2"])


def test_each_of_several_machines_has_cores_of_its_own(tmp_path: Path) -> None:
    assert found(tmp_path / "enough", cores=2, nodes=2).notes == ()
    (told,) = found(tmp_path / "few", cores=1, nodes=2).notes
    assert (told.id, told.figures, list_figures(told.text)[:2]) == ("scaling.few_cores", {"cores": 1}, ["2", "1"])


def test_a_suite_of_one_size_has_none(tmp_path: Path) -> None:
    assert analyze_suite(write_suite(tmp_path, {"baseline": [record(0.1)], "amp": [record(0.1)]})).scaling is None
    assert analyze_suite(scaled_suite(tmp_path / "two", {"baseline@2": [1.0], "ddp@2": [1.0]})).scaling is None


def planned(name: str, ranks: int, value: float, threads: int | None = 1, reason: str = "") -> PlannedVariant:
    total = Interval(value=value, low=value / 2, high=value * 2)
    step = StepTime(total=total, parts={"host": value}, dominant="host", source="this machine", threads=threads)
    return PlannedVariant(name=name, world_size=ranks, step_s=None if reason else step, step_reason=reason)


def beside(*variants: PlannedVariant) -> SuitePlan:
    return SuitePlan("2026-01-01", {variant.name: variant for variant in variants})


def scaled_by_hand(folder: Path, plan: SuitePlan = NO_PLAN, ended: dict[str, RunStatus] | None = None) -> SuiteScaling:
    stored = read_suite(scaled_suite(folder, STEPS))
    of = {name: tuple(run for run in stored.runs if run.variant == name) for name in stored.suite.variants}
    runs = {name: VariantRuns(name, its) for name, its in of.items()}
    variants = [
        replace(each, status=(ended or {}).get(each.name, each.status)) for each in analyze_suite(folder).variants
    ]
    scaled = build_scaling(stored.suite, runs, variants, plan, 64)
    assert scaled is not None
    return scaled


def test_a_plan_is_beside_what_was_measured_and_goes_on(tmp_path: Path) -> None:
    sizes = ((1, "baseline"), (2, "baseline@2"), (4096, "baseline@4096"))
    of_sizes = [planned(name, ranks, 1.0 + ranks / 4096) for ranks, name in sizes]
    slow = replace(of_sizes[-1].step_s, total=Interval(value=2.0, low=1.5, high=3.0))
    scaled = scaled_by_hand(tmp_path, beside(*of_sizes[:-1], replace(of_sizes[-1], step_s=slow)))
    points = curve(scaled, "baseline").planned
    assert [point.world_size for point in points] == [1, 2, 4096]
    assert points[0].efficiency is None
    last = points[-1].efficiency
    assert last is not None
    assert last.value == pytest.approx((1 + 1 / 4096) / 2)
    one = 1 + 1 / 4096  # whose bounds are half and twice as much; both steps are at the same end
    assert (last.low, last.high) == pytest.approx((one / 2 / 1.5, 2 * one / 3.0))
    assert scaled.basis == "this machine"
    assert scaled.plan_notes == ()


def test_why_nothing_is_predicted_is_told(tmp_path: Path) -> None:
    unknown = scaled_by_hand(tmp_path / "a", beside(planned("ddp@2", 2, 1.0, reason="the links are not known")))
    (why,) = unknown.plan_notes
    assert (why.id, why.figures) == ("scaling.not_predicted", {"curve": "ddp"})
    assert why.text.endswith(": the links are not known")
    others = scaled_by_hand(tmp_path / "b", beside(planned("ddp@2", 2, 1.0, threads=8)))
    (why,) = others.plan_notes
    assert (why.id, why.figures) == ("scaling.not_predicted", {"curve": "ddp"})
    assert why.text.endswith("number of threads")
    assert curve(others, "ddp").planned == ()


def test_a_variant_that_failed_is_no_point(tmp_path: Path) -> None:
    scaled = scaled_by_hand(tmp_path, ended={"ddp@4": RunStatus.CRASHED})
    assert [point.variant for point in curve(scaled, "ddp").points] == ["ddp@2"]
