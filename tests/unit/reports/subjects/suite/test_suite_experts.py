"""The section on experts: their load, what is dropped, and where there is nothing to tell."""

from pathlib import Path

import plotly.graph_objects as go

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.record.rank_record import ExpertLoad
from perfkit_reports.document.blocks import Chart, Table
from perfkit_reports.subjects.suite.experts import build_sections
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import record, write_suite

LOADS = (
    ExpertLoad(
        layer="blocks.0.mlp",
        tokens=8,
        routed_tokens=(5, 3),
        accepted_tokens=(4, 3),
        dropped_tokens=1,
        auxiliary_loss=1.25,
    ),
    ExpertLoad(
        layer="blocks.1.mlp",
        tokens=8,
        routed_tokens=(8, 0),
        accepted_tokens=(4, 0),
        dropped_tokens=4,
        auxiliary_loss=1.75,
    ),
)


def texts(table: Table) -> list[list[tuple[str, str]]]:
    cells = [[column.cell(row) for column in table.columns] for row in table.rows]
    return [[(cell.text, cell.detail or cell.reason) for cell in row] for row in cells]


def test_load_and_dropped_tokens_of_each_variant(tmp_path: Path) -> None:
    even = tuple(
        ExpertLoad(layer=f"{place}", tokens=8, routed_tokens=(4, 4), accepted_tokens=(4, 4), dropped_tokens=0)
        for place in range(2)
    )
    analysis = analyze_suite(
        write_suite(tmp_path, {"baseline": [record(0.1, expert_loads=LOADS)], "ep": [record(0.1, expert_loads=even)]})
    )
    (section,) = build_sections(analysis)
    table, chart = section.blocks
    assert isinstance(table, Table)
    assert isinstance(chart, Chart)
    shown = [[(list_figures(text) or text, list_figures(detail)) for text, detail in row] for row in texts(table)]
    assert shown == [
        [("baseline", []), (["1.62×"], ["2.00×"]), (["31.2 %"], ["50.0 %"]), (["1.500"], [])],
        [("ep", []), (["1.00×"], ["1.00×", "0"]), (["0.0 %"], []), ("n/a", [])],
    ]
    assert all(detail.endswith(" blocks.1.mlp") for _, detail in texts(table)[0][1:3])
    assert table.details is not None
    (layers,) = table.details(table.rows[0])
    assert isinstance(layers, Table)
    assert texts(layers)[1] == [
        ("blocks.1.mlp", ""),
        ("8, 0", ""),
        ("2.00× the mean", ""),
        ("50.0 %", "4"),
        ("1.750", ""),
    ]
    drawn = go.Figure(chart.figure)
    assert [list(trace.x) for trace in drawn.data] == [[0, 1], [0, 1]]
    (more, less), (most, none) = (trace.marker.color for trace in drawn.data)
    assert len({more, less, most, none}) == 4
    assert most.endswith("ff")  # furthest from the mean


def test_nothing_is_said_of_models_without_experts(tmp_path: Path) -> None:
    assert list(build_sections(analyze_suite(write_suite(tmp_path, {"baseline": [record(0.1)]})))) == []
