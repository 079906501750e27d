"""Sweeps: which variants belong together, and where their curve breaks."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.suite.sweeps import find_sweeps
from perfkit.core.record.claim import Claim, Relation
from perfkit.core.record.rank_record import WorkloadFacts
from perfkit.core.spec import WorkloadSpec
from perfkit_reports.document.blocks import Chart, walk_blocks
from perfkit_reports.subjects.suite.sizes import describe_sweep
from perfkit_reports.subjects.suite.suite_document import build_document
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import claim, record, spec, write_suite

ACTS = (claim("backward_passes", Relation.EQUAL, 1),)


def swept(folder: Path, steps: dict[int, float], label: str = "batch:size={}", claims: tuple[Claim, ...] = ACTS):
    runs, specs = {"baseline": [record(0.1)]}, {}
    for size, step_s in steps.items():
        name = label.format(size)
        facts = WorkloadFacts(unit="samples", units_per_batch=max(size, 1), parameters=100)
        runs[name] = [record(step_s, workload=facts, claims=claims, facts={"backward_passes": 1.0})]
        specs[name] = replace(spec(name), workload=WorkloadSpec(name="gpt", params={"batch_size": size}))
    return analyze_suite(write_suite(folder, runs, specs=specs))


def test_the_curve_breaks_where_steps_begin_to_grow_in_proportion(tmp_path: Path) -> None:
    analysis = swept(tmp_path, {16: 0.42, 2: 0.10, 4: 0.11, 8: 0.20})
    (sweep,) = analysis.sweeps
    assert (sweep.technique, sweep.parameter, sweep.variant, sweep.unit) == ("batch", "size", "batch:size=…", "sample")
    assert [point.value for point in sweep.points] == [2, 4, 8, 16]
    assert [point.unit_s for point in sweep.points] == pytest.approx([0.05, 0.0275, 0.025, 0.02625])
    # log2 of 0.11/0.10, 0.20/0.11 and 0.42/0.20
    assert [point.growth for point in sweep.points[1:]] == pytest.approx([0.1375, 0.8625, 1.0704], abs=1e-4)
    assert sweep.saturates_at == 8
    assert list_figures(describe_sweep(sweep))[:1] == ["8"]
    assert list_figures(describe_sweep(sweep))[-2:] == ["25.0 ms", "8"]


def test_a_curve_may_have_no_break_or_begin_with_it(tmp_path: Path) -> None:
    (flat,) = swept(tmp_path / "flat", {2: 0.10, 4: 0.12, 8: 0.15}).sweeps
    assert flat.saturates_at is None
    assert {"8"} <= {*list_figures(describe_sweep(flat))}
    assert "larger values may" in describe_sweep(flat)
    (uneven,) = swept(tmp_path / "uneven", {2: 0.10, 4: 0.40, 8: 0.42}).sweeps
    assert {"8"} <= {*list_figures(describe_sweep(uneven))}
    assert "larger" not in describe_sweep(uneven)  # where a smaller one takes the least
    (steep,) = swept(tmp_path / "steep", {2: 0.10, 4: 0.20, 8: 0.40}).sweeps
    assert steep.saturates_at == 2
    assert describe_sweep(steep).startswith("Saturated")


def test_two_values_or_numbers_that_change_no_work_are_no_sweep(tmp_path: Path) -> None:
    assert swept(tmp_path / "two", {2: 0.1, 4: 0.2}).sweeps == ()
    same = {f"ckpt:every={every}": [record(0.1 * every)] for every in (1, 2, 3)}
    assert analyze_suite(write_suite(tmp_path / "same", {"baseline": [record(0.1)], **same})).sweeps == ()


@pytest.mark.parametrize("claims", [(), (claim("backward_passes", Relation.EQUAL, 2),)])
def test_what_is_not_known_to_act_is_no_point_of_a_sweep(tmp_path: Path, claims: tuple[Claim, ...]) -> None:
    assert swept(tmp_path, {2: 0.1, 4: 0.2, 8: 0.4}, claims=claims).sweeps == ()


def test_what_is_only_emulated_is_no_point_of_a_sweep(tmp_path: Path) -> None:
    variants = swept(tmp_path, {2: 0.1, 4: 0.2, 8: 0.4}).variants
    assert len(find_sweeps(variants)) == 1
    assert find_sweeps([replace(variant, emulation_reason="no fp8 products") for variant in variants]) == ()


def test_a_value_of_0_is_no_size(tmp_path: Path) -> None:
    steps = {0: 0.1, 2: 0.1, 4: 0.2, 8: 0.4}
    (sweep,) = swept(tmp_path, steps, "fused_ce:chunk={}").sweeps
    assert [point.value for point in sweep.points] == [2, 4, 8]


def test_a_sweep_with_another_technique_is_its_own(tmp_path: Path) -> None:
    (sweep,) = swept(tmp_path, {2: 0.1, 4: 0.2, 8: 0.4}, "amp+batch:size={}").sweeps
    assert sweep.variant == "amp+batch:size=…"


def test_the_report_has_a_chart_of_time(tmp_path: Path) -> None:
    made = build_document(swept(tmp_path, {2: 0.1, 4: 0.2, 8: 0.4}))
    (section,) = (section for section in made.sections if section.id == "sizes")
    charts = [block for block in walk_blocks(section.blocks) if isinstance(block, Chart)]
    assert [chart.title for chart in charts] == ["Time per sample"]  # no memory was recorded
    (mark,) = charts[0].figure["layout"]["shapes"]
    assert (mark["x0"], mark["x1"]) == (2, 2)
