"""docs/python.md: its examples run, and their figures are those that the page shows."""

import re
from pathlib import Path

import pytest

import perfkit
from tests.fixtures.python_page import PAGE, prepare_folder, run_examples

# The suite on the page was measured, the one of the test is made up; what a plan predicts depends on the machine.
_OTHER_FIGURES = ("perfkit.check(", "checked", "perfkit.plan(")


@pytest.mark.slow
def test_examples_give_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_folder(tmp_path)
    monkeypatch.chdir(tmp_path)
    results = 0
    for source, want, found in run_examples():
        if found is None:
            assert len(want.splitlines()) <= 10
            continue
        shown, now = want.splitlines(), found.splitlines()
        if len(now) <= 1:
            assert want == found, source
            continue
        results += 1
        assert len(now) <= 10
        assert shown[0].partition(":")[0] == now[0].partition(":")[0], source
        assert shown[-1] == now[-1], source
        if not source.startswith(_OTHER_FIGURES):
            assert _list_figures(shown) == _list_figures(now), source
    assert results >= 6


def _list_figures(lines: list[str]) -> list[str]:
    """The first number of each line between the headline and the tables: the key figures and the findings."""
    found = (re.search(r": (-?[\d.,]+)", line) for line in lines[2:-2])
    return [match[1] for match in found if match]


def test_every_function_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in (
        "analyze",
        "compare",
        "plan",
        "bench",
        "tune",
        "check",
        "profile",
        "annotate",
        "what_if",
        "read_trace",
    ):
        assert name in perfkit.__all__
        assert f"`{name}(" in page
