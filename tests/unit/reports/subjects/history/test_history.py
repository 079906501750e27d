"""The forms of a history: words, files, figures."""

from pathlib import Path

import msgspec
import plotly.graph_objects as go
import pytest
from rich.console import Console

from perfkit.check.history.history import read_history
from perfkit.check.history.result import CommitRange, History
from perfkit_reports.charts.history import history_figure
from perfkit_reports.check.history_terminal import print_history
from perfkit_reports.check.history_write import write_history
from perfkit_reports.subjects.history import changes as history_cells
from tests.fixtures.sample_histories import noisy_steps, write_past

GIB = 2**30


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    steps = noisy_steps([(18, 0.1), (12, 0.11)], 0.01, 3)
    peaks = [GIB] * 10 + [GIB + 1] * 20
    return read_history(write_past(tmp_path_factory.mktemp("history"), steps, peaks=peaks))


def test_a_change_in_a_sentence(history: History) -> None:
    change = next(each for each in history_cells.changes(history) if each.series.quantity == "step_time")

    told = history_cells.sentence(change)
    assert told.startswith("+")
    assert told.endswith("% step time of gpt amp, between 0000000 and 0000000")
    assert history_cells.is_regression(change)


@pytest.mark.parametrize(
    ("commits", "words"),
    [
        (CommitRange(before="abc1234567", after="def5678901", count=4), "between abc1234 and def5678 (4 commits)"),
        (CommitRange(before="abc1234567", after="def5678901", count=1), "between abc1234 and def5678 (1 commit)"),
        (CommitRange(before="", after="def5678901"), "between an unknown revision and def5678"),
        (CommitRange(before="abc", after="abc", count=0), "within abc: no commit lies between"),
    ],
)
def test_ranges_in_words(commits: CommitRange, words: str) -> None:
    assert history_cells.where(commits) == words


def test_levels_that_would_read_alike_are_told_to_the_byte(history: History) -> None:
    change = next(each for each in history_cells.changes(history) if each.series.quantity == "peak_allocated")

    assert history_cells.level(change.point.before.value, change).text == "1,073,741,824 B"
    assert history_cells.level(change.point.after.value, change).text == "1,073,741,825 B"


def test_files_are_written_and_the_json_reads_back(history: History, tmp_path: Path) -> None:
    report, data = write_history(history, tmp_path)

    assert msgspec.json.decode(data.read_bytes(), type=History) == history
    assert "<html" in report.read_text(encoding="utf-8")


def test_figures_are_plotlys(history: History) -> None:
    for series in history.series:
        drawn = go.Figure(history_figure(series))
        assert len(drawn.data[-1].x) == len(series.points)


def test_the_terminal_tells_the_changes(history: History, tmp_path: Path) -> None:
    console = Console(width=100, record=True, file=(tmp_path / "out").open("w"))
    print_history(history, console, tmp_path)

    told = console.export_text()
    assert "step time of gpt amp" in told
    assert "95 % confidence" in " ".join(told.split())
    assert str(tmp_path / "report.html") in told.replace("\n", "")


def test_no_change_is_said(tmp_path: Path) -> None:
    quiet = read_history(write_past(tmp_path, [0.1, 0.1, 0.1]))

    assert history_cells.headline(quiet) == "No change in 3 series of 3 runs."
    write_history(quiet, tmp_path / "report")
