import io

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from perfkit.check.judge.result import CheckCalibration
from perfkit.core import units
from perfkit_reports.render import markdown, terminal
from perfkit_reports.subjects import calibration
from tests.fixtures import sample_calibration
from tests.fixtures.figures import list_figures


@pytest.fixture(scope="module")
def steady() -> CheckCalibration:
    return sample_calibration.steady()


@pytest.fixture(scope="module")
def biased() -> CheckCalibration:
    return sample_calibration.biased()


def printed(known: CheckCalibration, width: int = 100, *, verbose: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    terminal.render(calibration.build_document(known), console, verbose=verbose)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_it_fits_the_terminal_and_no_number_is_cut(steady: CheckCalibration, width: int) -> None:
    text = printed(steady, width, verbose=True)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "…" not in text


@pytest.mark.parametrize("width", [40, 100])
def test_every_budget_is_told_with_what_it_finds(steady: CheckCalibration, width: int) -> None:
    text = flat(printed(steady, width))
    for row in steady.rows:
        assert units.format_seconds(row.budget_s) in text
        assert all(value is not None and units.format_percent(value) in text for value in row.detectable.values())


def test_the_headline_is_of_the_default_budget(steady: CheckCalibration) -> None:
    (row,) = (row for row in steady.rows if row.budget_s == 180.0)
    cpu, wall = (units.format_percent(value or 0.0) for value in row.detectable.values())
    assert list_figures(calibration.build_headline(steady)) == ["3 min", "0 s", cpu, wall]


def test_budgets_that_are_too_small_say_so(biased: CheckCalibration) -> None:
    text = markdown.render(calibration.build_document(biased))
    assert "| 4.00 s | 0 | n/a (1) | n/a (1) |" in text
    assert "1. n/a: a budget" in text
    none = msgspec.structs.replace(biased, rows=biased.rows[:1])
    assert calibration.build_headline(none).startswith("No budget")


def test_a_side_that_measuring_favours_is_told(steady: CheckCalibration, biased: CheckCalibration) -> None:
    assert calibration.build_document(steady).warnings == ()
    first, second, note = calibration.build_document(biased).warnings
    assert [each.id for each in (first, second, note)] == ["check.biased", "check.biased", "check.pairs"]
    assert [each.figures["quantity"] for each in (first, second)] == ["cpu_time", "step_time"]
    assert first.figures["change"] == pytest.approx(0.019, abs=0.001)
    assert f"! {first}" in flat(printed(biased))
    assert f"- {first}" in markdown.render(calibration.build_document(biased))


def test_false_alarms_are_counted_of_all_comparisons(steady: CheckCalibration) -> None:
    assert f"{steady.noise[0].false_alarms:,} of 1,000" in printed(steady)
    assert f"{steady.pairs} process pairs" in flat(printed(steady))
