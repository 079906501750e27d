"""What is said of a history, and its forms."""

import io
import re
from pathlib import Path

import msgspec
import plotly.graph_objects as go
import pytest
from rich.console import Console

from perfkit.check.history.history import read_history
from perfkit.check.history.result import Commit, CommitRange, History
from perfkit_reports.charts.history import build_history_figure
from perfkit_reports.document.blocks import Details, Group, Narrow, Table
from perfkit_reports.render import terminal
from perfkit_reports.render.report_files import write_document
from perfkit_reports.subjects.history import changes
from perfkit_reports.subjects.history.history_document import build_document
from tests.fixtures.figures import list_figures
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_histories import noisy_steps, write_past

GIB = 2**30


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    steps = noisy_steps([(18, 0.1), (12, 0.11)], 0.01, 3)
    peaks = [GIB] * 10 + [GIB + 1] * 20
    return read_history(write_past(tmp_path_factory.mktemp("history"), steps, peaks=peaks))


def test_a_change_in_a_sentence(history: History) -> None:
    change = next(each for each in changes.list_changes(history) if each.series.quantity == "step_time")

    told = changes.describe_change(change)
    assert told.startswith("+")
    assert list_figures(told)[-2:] == ["0000000", "0000000"]
    assert changes.is_regression(change)


@pytest.mark.parametrize(
    ("commits", "revisions", "figures"),
    [
        (CommitRange(before="abc1234567", after="def5678901", count=4), ["abc1234", "def5678"], ["4"]),
        (CommitRange(before="abc1234567", after="def5678901", count=1), ["abc1234", "def5678"], ["1"]),
        (CommitRange(before="", after="def5678901"), ["def5678"], []),
        (CommitRange(before="abc", after="abc", count=0), ["abc"], []),
    ],
)
def test_ranges_in_words(commits: CommitRange, revisions: list[str], figures: list[str]) -> None:
    words = changes.describe_commits(commits)
    assert re.findall(r"\b(?:abc|def)\d*\b", words) == revisions
    assert list_figures(words) == figures


def test_levels_that_would_read_alike_are_told_to_the_byte(history: History) -> None:
    change = next(each for each in changes.list_changes(history) if each.series.quantity == "peak_allocated")

    assert changes.make_level_cell(change.point.before.value, change).text == "1,073,741,824 B"
    assert changes.make_level_cell(change.point.after.value, change).text == "1,073,741,825 B"
    assert changes.make_change_cell(change).text == "+1 B"


def test_files_are_written_and_the_json_reads_back(history: History, tmp_path: Path) -> None:
    names = [str(path.relative_to(tmp_path)) for path in write_document(build_document(history), tmp_path)]

    assert names == [
        *("report.html", "history.json", "report.md"),
        *("tables/points.parquet", "tables/changes.parquet"),
    ]
    assert msgspec.json.decode((tmp_path / "history.json").read_bytes(), type=History) == history
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert (page.loaded(), page.intruders()) == ([], [])


def test_what_stands_is_told_first(history: History) -> None:
    said = build_document(history)

    assert said.headline == changes.build_headline(history)
    first = changes.list_changes(history)[0]
    assert said.headline.startswith(changes.describe_change(first))
    assert changes.is_regression(first)
    assert said.summary == ()  # the table has every change


def test_changes_and_plots_can_be_chosen_by_workload_and_quantity(history: History) -> None:
    first, second, _ = build_document(history).sections
    narrow, table, *_ = first.blocks
    changed, *_ = second.blocks
    assert isinstance(narrow, Narrow)
    assert isinstance(table, Table)
    assert isinstance(changed, Group)
    every = [dict(chart.tags) for chart in changed.blocks] + [dict(table.tags(row)) for row in table.rows]
    assert all(tags[name] in values for tags in every for name, values in narrow.choices.items())
    assert {chart.tags["Workload"] for chart in changed.blocks} == {"gpt amp"}


def test_a_plot_says_what_the_series_could_show(history: History) -> None:
    charts = build_document(history).sections[1].blocks[0].blocks
    assert all({"5"} <= {*list_figures(chart.caption)} for chart in charts if "step time" in chart.title)


def test_figures_are_plotlys(history: History) -> None:
    for series in history.series:
        drawn = go.Figure(build_history_figure(series))
        assert len(drawn.data[-1].x) == len(series.points)


def test_raw_rows_are_the_points_and_the_changes(history: History) -> None:
    points, found = (data.rows() for data in build_document(history).data)
    assert len(points) == sum(len(series.points) for series in history.series)
    assert [row["quantity"] for row in found] == [series.quantity for series in history.series for _ in series.changes]
    assert found[0]["commit_after"] == history.series[0].changes[0].commits.after


def test_a_change_unfolds_to_its_commits(history: History) -> None:
    commits = CommitRange(before="a", after="b", commits=(Commit(revision="abc1234567", title="Faster"),), count=3)
    series = next(series for series in history.series if series.changes)
    point = msgspec.structs.replace(series.changes[0], commits=commits)
    changed = msgspec.structs.replace(history, series=(msgspec.structs.replace(series, changes=(point,)),))
    table = build_document(changed).sections[0].blocks[1]
    (unfolded,) = table.details(table.rows[0])
    assert unfolded.lines[0] == "abc1234 Faster"
    assert [list_figures(line) for line in unfolded.lines[1:]] == [["2"]]


def test_the_terminal_tells_the_changes(history: History) -> None:
    console = Console(file=io.StringIO(), width=100)
    terminal.render(build_document(history), console)

    told = " ".join(console.file.getvalue().split())
    assert changes.build_headline(history) in told
    assert "gpt amp" in told


def test_no_change_is_said(tmp_path: Path) -> None:
    quiet = read_history(write_past(tmp_path, [0.1, 0.1, 0.1]))
    said = build_document(quiet)

    assert list_figures(said.headline) == ["3", "3"]
    assert [block.id for block in said.sections[0].blocks][:2] == ["narrow", "steady"]
    fold = said.sections[1].blocks[0]
    assert isinstance(fold, Details)
    assert (fold.title, fold.open) == ("3 series without a change", True)


def test_a_history_gives_frames_and_its_page(history: History, tmp_path: Path) -> None:
    frame = history.frame("points")
    assert len(frame) == sum(len(series.points) for series in history.series)
    assert "<html" in history.to_html(tmp_path / "history.html").read_text(encoding="utf-8")
