import json
from pathlib import Path

import pytest

from benchmarks.gpu.parts import PARTS, Estimate, Part, estimate_row, load_rows, plan_rows, read_estimates
from benchmarks.gpu.rows import Found, Row, Setting
from benchmarks.gpu.tables import format_plan


def never(setting: Setting) -> Found:
    raise AssertionError


def test_parts_are_in_the_order_of_their_groups() -> None:
    assert [part.group for part in PARTS] == sorted(part.group for part in PARTS)


def test_every_part_names_rows_that_its_script_has() -> None:
    for part in PARTS:
        assert load_rows(part), part.script


def test_an_unknown_row_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="no row version; it has versions, packages"):
        load_rows(Part("a", "stands", "", ("version",)))


def test_an_estimate_is_planned_or_the_rows_own_or_its_longest_time() -> None:
    part = Part("a", "stands", "", ("tests",))
    (planned,) = plan_rows([part], {("stands", "tests"): Estimate(30, "recorded")})
    assert planned.estimate == Estimate(30, "recorded")
    assert estimate_row(Row("a", never, 100, planned_s=7, basis="windows of 5 s")) == Estimate(7, "windows of 5 s")
    assert estimate_row(Row("a", never, 100)).seconds == 100


def test_estimates_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "planned.json"
    assert read_estimates(path) == {}
    path.write_text(json.dumps({"rows": {"steps": {"gpt": {"seconds": 12.5, "basis": "plan"}}}}))
    assert read_estimates(path) == {("steps", "gpt"): Estimate(12.5, "plan")}


def test_a_plan_adds_up() -> None:
    parts = [Part("a", "stands", "", ("versions", "packages")), Part("b", "stands", "", ("tests",))]
    seconds = {"versions": 4.0, "packages": 2.0, "tests": 100.0}
    estimates = {("stands", name): Estimate(value, "stated") for name, value in seconds.items()}
    lines = format_plan(plan_rows(parts, estimates)).splitlines()
    assert [line.split()[:5] for line in lines[1:4]] == [
        ["a", "stands", "versions", "4", "4"],
        ["a", "stands", "packages", "2", "6"],
        ["b", "stands", "tests", "100", "106"],
    ]
    assert lines[4] == "parts: a 6 s, b 100 s; together 106 s"
