"""Losses over steps and over time, where a variant takes another trajectory."""

import plotly.graph_objects as go
import pytest
from msgspec.structs import replace

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit_reports.document.blocks import Chart, Table
from perfkit_reports.subjects.suite.suite_document import build_document
from tests.fixtures.document_blocks import blocks


def trained(variant: Variant, step_s: float | None, losses: tuple[float | None, ...], verdict: str = "") -> Variant:
    time = (
        MissingEstimate(reason="not timed")
        if step_s is None
        else MedianEstimate(value=step_s, unit="s", per_process=(step_s,))
    )
    parity = replace(variant.parity, verdict=verdict or variant.parity.verdict)
    return replace(variant, step_time=time, losses=losses, parity=parity)


@pytest.fixture
def suite(realistic: Analysis) -> Analysis:
    """A baseline of 0.2 s a step, another optimizer at twice the speed, one at a third of it, one without a time."""
    base, quick, slow, untimed = realistic.variants[:4]
    return replace(
        realistic,
        variants=(
            trained(base, 0.2, (3.0, 2.9, 2.8, 2.7)),
            trained(quick, 0.1, (3.0, 2.8, None, 2.6), "not comparable"),
            trained(slow, 0.6, (3.0, 2.5), "not comparable"),
            trained(untimed, None, (3.0, 2.5), "not comparable"),
        ),
    )


def chart(analysis: Analysis, name: str) -> Chart:
    found = blocks(build_document(analysis))[name]
    assert isinstance(found, Chart)
    go.Figure(found.figure)
    return found


def test_losses_are_drawn_over_steps_and_where_the_steps_end_in_time(suite: Analysis) -> None:
    over_steps, over_time = chart(suite, "losses"), chart(suite, "losses-time")
    assert [list(trace["x"]) for trace in over_steps.figure["data"]] == [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2]]
    drawn = [[float(x) for x in trace["x"]] for trace in over_time.figure["data"]]
    assert drawn == [pytest.approx([0.2, 0.4, 0.6, 0.8]), pytest.approx([0.1, 0.2, 0.3, 0.4]), [0.6, 1.2]]
    assert over_time.figure["data"][1]["y"] == [3.0, 2.8, None, 2.6]
    assert over_time.figure["data"][2]["hovertext"][1].endswith("1.20 s, step 2: loss 2.5")
    assert over_time.figure["layout"]["xaxis"]["title"]["text"] == "time (s)"


def test_the_table_has_the_losses_after_as_many_steps_and_after_as_much_time(suite: Analysis) -> None:
    """The fewest steps are the slow one's 2; the quick one's 4 steps end first, after 0.4 s."""
    table = blocks(build_document(suite))["losses-reached"]
    assert isinstance(table, Table)
    assert [column.title for column in table.columns] == ["Variant", "After 2 steps", "After 400 ms"]
    cells = [[column.cell(row) for column in table.columns[1:]] for row in table.rows]
    shown = [[(cell.text, cell.detail) for cell in row] for row in cells]
    assert shown == [
        [("2.900", "2 steps"), ("2.900", "2 steps")],
        [("2.800", "2 steps"), ("2.600", "4 steps")],
        [("2.500", "2 steps"), ("n/a", "")],
    ]
    assert table.columns[2].cell(table.rows[2]).reason.startswith("its first step")


def test_losses_of_one_trajectory_stay_among_the_samples(realistic: Analysis) -> None:
    found = blocks(build_document(realistic))
    assert "losses" in found
    assert "losses-time" not in found


def test_raw_losses_say_when_their_step_ends(suite: Analysis) -> None:
    (data,) = (each for each in build_document(suite).data if each.name == "losses")
    rows = [row for row in data.rows() if row["variant"] == suite.variants[2].name]
    assert [(row["step"], row["end_s"], row["loss"]) for row in rows] == [(0, 0.6, 3.0), (1, 1.2, 2.5)]
    untimed = [row for row in data.rows() if row["variant"] == suite.variants[3].name]
    assert [row["end_s"] for row in untimed] == [None, None]


def test_what_is_only_emulated_has_no_place_in_time(suite: Analysis) -> None:
    base, quick, slow, untimed = suite.variants
    emulated = replace(suite, variants=(base, replace(quick, emulation_reason="no fp8 here"), slow, untimed))
    assert len(chart(emulated, "losses").figure["data"]) == 3
    assert len(chart(emulated, "losses-time").figure["data"]) == 2
    table = blocks(build_document(emulated))["losses-reached"]
    assert isinstance(table, Table)
    assert table.columns[2].title == "After 800 ms"  # the baseline's 4 steps; the quick one's 400 ms do not count
    assert table.columns[2].cell(table.rows[1]).reason.endswith(": no fp8 here")
