"""Which folders a new suite may be written to."""

from pathlib import Path

import pytest

from perfkit.errors import UsageError
from perfkit.files import write_json
from perfkit.measure.making import refuse_occupied
from perfkit.store.layout import SUITE_FILE
from perfkit.store.summary import PLAN_FILE, SUMMARY_FILE, Summary


def report(folder: Path, kind: str) -> None:
    """A folder with a plan, and with the summary of a report of that kind."""
    (folder / PLAN_FILE).write_text("{}")
    (folder / "report.html").write_text("")
    write_json(folder / SUMMARY_FILE, Summary(kind=kind, name="gpt", created_at="2026-01-01T00:00:00+00:00"))


def test_a_plan_makes_room_for_the_suite(tmp_path: Path) -> None:
    report(tmp_path, "plan")
    refuse_occupied(tmp_path)


def test_a_suite_with_a_plan_does_not(tmp_path: Path) -> None:
    report(tmp_path, "plan")
    (tmp_path / SUITE_FILE).write_text("{}")
    with pytest.raises(UsageError, match="never overwritten"):
        refuse_occupied(tmp_path)


def test_nor_does_a_file_that_is_only_called_like_a_plan(tmp_path: Path) -> None:
    (tmp_path / PLAN_FILE).write_text("{}")
    with pytest.raises(UsageError, match="never overwritten"):
        refuse_occupied(tmp_path)
    report(tmp_path, "memory")
    with pytest.raises(UsageError, match="never overwritten"):
        refuse_occupied(tmp_path)
