"""The section on scaling: measured, predicted beside it and onwards, and what is not to be read out of it."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval
from perfkit.analysis.model.scaling import PlannedPoint
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit_reports.document.blocks import Chart, Section, Table, Text, walk_blocks
from perfkit_reports.document.raw import encode_json
from perfkit_reports.subjects.suite.scaling import build_scaling_sections
from perfkit_reports.subjects.suite.suite_data import build_data
from perfkit_reports.subjects.suite.suite_document import build_document
from tests.fixtures.figures import list_figures
from tests.fixtures.sample_analysis import realistic
from tests.fixtures.scaled_suites import Steps, scaled_suite

STEPS: Steps = {
    "baseline": [1.0, 1.02],
    "baseline@2": [1.25, 1.26],
    "ddp@2": [1.2, 1.21],
    "ddp@4": [1.6, 1.61],
}


@pytest.fixture
def analysis(tmp_path: Path) -> Analysis:
    return analyze_suite(scaled_suite(tmp_path, STEPS, cores=2))


@pytest.fixture
def planned(analysis: Analysis) -> Analysis:
    """With what a plan says of the baseline, up to 4,096 ranks."""
    assert analysis.scaling is not None
    wide = Interval(value=0.5, low=0.01, high=25.0)
    points = tuple(
        PlannedPoint(
            world_size=ranks, step_s=Interval(value=1.0, low=0.5, high=4.0), efficiency=None if ranks == 1 else wide
        )
        for ranks in (1, 2, 4096)
    )
    curves = tuple(replace(each, planned=points if each.is_baseline else ()) for each in analysis.scaling.curves)
    return replace(analysis, scaling=replace(analysis.scaling, curves=curves, basis="this machine"))


def section(analysis: Analysis) -> Section:
    (found,) = build_scaling_sections(analysis)
    return found


def shown(table: Table, title: str) -> list[str]:
    column = next(each for each in table.columns if each.title == title)
    cells = [column.cell(row) for row in table.rows]
    return [cell.text if cell.known else f"n/a: {cell.reason}" for cell in cells]


def blocks(analysis: Analysis, kind: type) -> dict[str, object]:
    return {block.id: block for block in walk_blocks(section(analysis).blocks) if isinstance(block, kind)}


def test_a_suite_of_one_size_has_no_such_section() -> None:
    assert list(build_scaling_sections(realistic())) == []
    assert "scaling" not in {table.name for table in build_data(realistic())}


def test_what_was_measured_is_a_table_and_two_charts(analysis: Analysis) -> None:
    table = blocks(analysis, Table)["scaling-table"]
    assert isinstance(table, Table)
    assert table.title == "Weak scaling"
    assert shown(table, "Variant") == ["baseline", "baseline", "ddp", "ddp"]
    assert shown(table, "Ranks") == ["1", "2", "2", "4"]
    assert shown(table, "Efficiency") == ["reference", "80 %", "reference", "75 %"]
    assert shown(table, "Efficiency vs baseline") == ["reference", "80 %", "84 %", "63 %"]
    assert shown(table, "Exposed communication")[0] == "n/a: no traced step"
    assert "Predicted step" not in {column.title for column in table.columns}
    assert set(blocks(analysis, Chart)) == {"scaling-efficiency", "scaling-time"}
    assert "scaling-onwards" not in blocks(analysis, Table)


def test_shared_cores_stand_beside_the_table(analysis: Analysis) -> None:
    (note,) = (block for block in section(analysis).blocks if isinstance(block, Text))
    assert note.style == "callout"
    assert {"4", "1", "2"} <= {*list_figures(note.lines[0])}


def test_a_prediction_is_beside_the_measured_sizes_and_goes_on(planned: Analysis) -> None:
    tables = blocks(planned, Table)
    measured, onwards = tables["scaling-table"], tables["scaling-onwards"]
    assert isinstance(measured, Table)
    assert isinstance(onwards, Table)
    assert shown(measured, "Predicted step")[:2] == ["1.00 s", "1.00 s"]
    assert shown(measured, "Predicted efficiency")[:2] == ["reference", "50 %"]
    assert shown(measured, "Predicted step")[2].startswith("n/a: not planned")
    assert "this machine" in measured.caption
    assert shown(onwards, "Ranks") == ["4,096"]
    assert onwards.title == "Predicted scaling"


def test_wide_bounds_are_drawn_and_leave_the_measured_points_to_be_seen(planned: Analysis) -> None:
    chart = blocks(planned, Chart)["scaling-efficiency"]
    assert isinstance(chart, Chart)
    drawn = {trace["name"]: trace for trace in chart.figure["data"]}
    hollow = drawn["baseline, predicted"]
    assert hollow["marker"]["symbol"].endswith("-open")
    assert hollow["line"]["dash"] == "dot"
    assert hollow["error_y"]["array"][1] == pytest.approx((25.0 - 0.5) / 0.01)
    assert chart.figure["layout"]["yaxis"]["range"] == [0.0, 150.0]
    assert [name for name, *_ in chart.legend] == ["baseline", "ddp"]


def test_report_json_holds_it(planned: Analysis) -> None:
    assert msgspec.json.decode(encode_json(build_document(planned).raw["report.json"]), type=Analysis) == planned


def test_every_number_of_ranks_is_a_raw_row(planned: Analysis) -> None:
    (table,) = (each for each in build_document(planned).data if each.name == "scaling")
    rows = list(table.rows())
    assert [(row["techniques"], row["world_size"]) for row in rows] == [
        ("baseline", 1), ("baseline", 2), ("baseline", 4096), ("ddp", 2), ("ddp", 4),
    ]  # fmt: skip
    assert rows[1]["efficiency"] == pytest.approx(0.8, abs=0.01)
    assert rows[2]["variant"] is None
    assert (rows[2]["planned_step_s"], rows[2]["planned_efficiency_high"]) == (1.0, 25.0)
