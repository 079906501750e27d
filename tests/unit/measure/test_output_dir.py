"""Which folders a new suite may be written to."""

from pathlib import Path

import pytest

from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.measure.output_dir import refuse_occupied
from perfkit.store.layout import SUITE_FILE
from perfkit.store.summary import PLAN_FILE, SUMMARY_FILE, ReportSummary


def report(folder: Path, kind: str) -> None:
    """A folder with a plan, and with the summary of a report of that kind."""
    (folder / PLAN_FILE).write_text("{}")
    (folder / "report.html").write_text("")
    write_json(folder / SUMMARY_FILE, ReportSummary(kind=kind, name="gpt", created_at="2026-01-01T00:00:00+00:00"))


def test_a_plan_makes_room_for_the_suite(tmp_path: Path) -> None:
    report(tmp_path, "plan")
    refuse_occupied(tmp_path)


def test_a_suite_with_a_plan_does_not(tmp_path: Path) -> None:
    report(tmp_path, "plan")
    (tmp_path / SUITE_FILE).write_text("{}")
    with pytest.raises(UsageError, match="--out"):
        refuse_occupied(tmp_path)


def test_nor_does_a_file_that_is_only_called_like_a_plan(tmp_path: Path) -> None:
    (tmp_path / PLAN_FILE).write_text("{}")
    with pytest.raises(UsageError, match="--out"):
        refuse_occupied(tmp_path)
    report(tmp_path, "memory")
    with pytest.raises(UsageError, match="--out"):
        refuse_occupied(tmp_path)


def test_what_a_plan_writes_is_all_that_may_lie_there(tmp_path: Path) -> None:
    report(tmp_path, "plan")
    for name in ("tables/variants.parquet", "figures/needed.svg", "report.md", ".lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    refuse_occupied(tmp_path)
    for stray in ("notes.txt", "tables/mine.csv", "figures/more"):
        (tmp_path / stray).write_text("")
        with pytest.raises(UsageError, match="--out"):
            refuse_occupied(tmp_path)
        (tmp_path / stray).unlink()
    (tmp_path / "plan.json").rename(tmp_path / "tables" / "plan.json")
    with pytest.raises(UsageError, match="--out"):
        refuse_occupied(tmp_path)
