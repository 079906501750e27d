"""Claiming the folder of a run."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from perfkit.attach.host.run_folder import claim_folder, find_plan, name_default_folder
from perfkit.core.errors import UsageError
from perfkit.store.layout import SUITE_FILE
from perfkit.store.summary import PLAN_FILE


def test_a_free_one(tmp_path: Path) -> None:
    folder = claim_folder(tmp_path / "new" / "run")
    assert folder == tmp_path / "new" / "run"
    assert (folder / SUITE_FILE).read_bytes() == b""


def test_one_that_is_there_but_holds_no_run(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert claim_folder(tmp_path) == tmp_path
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_taken_ones_are_passed_over(tmp_path: Path) -> None:
    assert [claim_folder(tmp_path / "run").name for _ in range(3)] == ["run", "run-2", "run-3"]


def test_taken_by_a_run_that_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / SUITE_FILE).write_text("theirs")
    assert claim_folder(tmp_path / "run").name == "run-2"
    assert (tmp_path / "run" / SUITE_FILE).read_text() == "theirs"


def test_many_at_once_get_one_each(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        folders = list(pool.map(lambda _: claim_folder(tmp_path / "run"), range(32)))
    assert {folder.name for folder in folders} == {"run", *(f"run-{number}" for number in range(2, 33))}


def test_below_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        claim_folder(tmp_path / "file" / "run")


def test_a_regular_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(FileExistsError):
        claim_folder(tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


def test_a_relative_one_stays_where_it_was_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = claim_folder(Path("runs/one"))
    monkeypatch.chdir("/")
    assert folder == tmp_path / "runs" / "one"


def test_the_default_is_named_for_time_and_script() -> None:
    assert name_default_folder("train", datetime(2026, 1, 31, 12, 5, 9)) == Path("runs/2026-01-31-120509-train")


def test_a_name_too_long_for_a_file_system(tmp_path: Path) -> None:
    folder = tmp_path / name_default_folder("長" * 300, datetime(2026, 1, 31)).name
    folder.mkdir()


def test_a_plan_is_found_wherever_the_program_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("plan").mkdir()
    with pytest.raises(UsageError, match="no plan in plan; make one with perfkit plan --out plan"):
        find_plan(Path("plan"))
    (tmp_path / "plan" / PLAN_FILE).write_text("{}")
    assert find_plan(Path("plan")) == tmp_path / "plan" / PLAN_FILE
