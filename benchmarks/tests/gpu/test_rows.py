import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.rows import Found, Results, Row, Setting, Skipped, measure_in_process, measure_rows, slugify

MACHINE = {"device": "NVIDIA H200", "gpus": 1, "torch": "2.11.0", "cuda": "13.0"}


def never(setting: Setting) -> Found:
    raise AssertionError("rows are measured by processes of their own")


def row(name: str, at_most_s: float = 10) -> Row:
    return Row(name, never, at_most_s)


class Measured:
    """Takes the place of rows' processes: each row takes so many seconds of a clock that it turns itself."""

    def __init__(self, seconds: dict[str, float], status: str = "ok") -> None:
        self.seconds, self.status = seconds, status
        self.now = 0.0
        self.begun: list[str] = []

    def __call__(self, row: Row) -> tuple[dict[str, Any], Sequence[str]]:
        self.begun.append(row.name)
        self.now += self.seconds[row.name]
        return {"status": self.status, "reason": "", "figures": {}, "seconds": self.seconds[row.name]}, ()

    def run(self, names: str, results: Results, *, budget_s: float = 100, again: bool = False) -> bool:
        rows = [row(name) for name in names]
        return measure_rows(rows, results, self, budget_s=budget_s, again=again, now=lambda: self.now)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "nvidia-h200" / "stands.json"


def test_a_row_is_saved_before_the_next_is_measured(path: Path) -> None:
    saved: list[list[str]] = []

    def measure(row: Row) -> tuple[dict[str, Any], Sequence[str]]:
        saved.append(list(json.loads(path.read_text())["rows"]) if path.exists() else [])
        return {"status": "ok", "reason": "", "figures": {"x": 1}, "seconds": 1}, ()

    assert measure_rows([row("a"), row("b")], Results.open(path, MACHINE), measure, budget_s=100)
    assert saved == [[], ["a"]]
    assert json.loads(path.read_text())["rows"]["b"]["figures"] == {"x": 1}


def test_a_second_call_skips_what_is_there(path: Path) -> None:
    seconds = dict.fromkeys("abc", 1.0)
    Measured(seconds).run("ab", Results.open(path, MACHINE))
    second = Measured(seconds)
    assert second.run("abc", Results.open(path, MACHINE))
    assert second.begun == ["c"]


def test_what_failed_is_there_and_what_was_skipped_is_asked_again(path: Path) -> None:
    Measured({"a": 1.0}, status="failed").run("a", Results.open(path, MACHINE))
    Measured({"b": 1.0}, status="skipped").run("b", Results.open(path, MACHINE))
    second = Measured({"a": 1.0, "b": 1.0})
    second.run("ab", Results.open(path, MACHINE))
    assert second.begun == ["b"]


def test_what_is_named_is_measured_again(path: Path) -> None:
    Measured({"a": 1.0}).run("a", Results.open(path, MACHINE))
    second = Measured({"a": 1.0})
    second.run("a", Results.open(path, MACHINE), again=True)
    assert second.begun == ["a"]


def test_no_row_is_begun_that_might_outlast_the_budget(path: Path) -> None:
    first = Measured(dict.fromkeys("abcd", 8.0))
    assert not first.run(
        "abcd", Results.open(path, MACHINE), budget_s=26
    )  # at 16 s the third might end at 26, at 24 not
    assert first.begun == ["a", "b", "c"]
    second = Measured({"d": 8.0})
    assert second.run("abcd", Results.open(path, MACHINE), budget_s=26)
    assert second.begun == ["d"]


def test_every_call_gets_on_however_small_the_budget(path: Path) -> None:
    measured = Measured({"a": 5.0, "b": 5.0})
    assert not measured.run("ab", Results.open(path, MACHINE), budget_s=1)
    assert measured.begun == ["a"]


def test_rows_of_two_machines_are_not_mixed(path: Path) -> None:
    Measured({"a": 1.0}).run("a", Results.open(path, MACHINE))
    with pytest.raises(ValueError, match="name another --out"):
        Results.open(path, {**MACHINE, "torch": "2.13.0"})


def in_process(tmp_path: Path, code: str, at_most_s: float = 60) -> tuple[dict[str, Any], Sequence[str]]:
    folder = tmp_path / "row"
    return measure_in_process([sys.executable, "-c", code, str(folder)], row("a", at_most_s), folder)


WRITES = """
import json, pathlib, sys
answer = {"status": "ok", "reason": "", "figures": {"x": 1}, "lines": ["x is 1"]}
pathlib.Path(sys.argv[1], "row.json").write_text(json.dumps(answer))
"""


@pytest.mark.slow
def test_what_the_process_of_a_row_wrote_is_its_entry(tmp_path: Path) -> None:
    entry, lines = in_process(tmp_path, WRITES)
    assert (entry["status"], entry["figures"], lines) == ("ok", {"x": 1}, ["x is 1"])
    assert entry["seconds"] >= 0


@pytest.mark.slow
def test_a_process_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    entry, lines = in_process(tmp_path, WRITES + "print('no such kernel'); sys.exit(3)")
    assert (entry["status"], entry["reason"]) == ("failed", "exit code 3")
    assert lines == ["no such kernel"]


@pytest.mark.slow
def test_a_process_that_hangs_is_ended(tmp_path: Path) -> None:
    entry, _ = in_process(tmp_path, "import time; print('waiting', flush=True); time.sleep(600)", at_most_s=1)
    assert (entry["status"], entry["reason"]) == ("failed", "not done after 1 s")
    assert entry["seconds"] < 20


@pytest.mark.slow
def test_a_process_is_interrupted_before_it_is_killed(tmp_path: Path) -> None:
    """Also where this one is deaf to SIGINT, as a shell's background jobs are."""
    code = """
import pathlib, sys, time
try:
    time.sleep(600)
except KeyboardInterrupt:
    pathlib.Path(sys.argv[1], "interrupted").touch()
"""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        in_process(tmp_path, code, at_most_s=2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (tmp_path / "row" / "interrupted").exists()


@pytest.mark.slow
def test_files_of_megabytes_are_not_kept(tmp_path: Path) -> None:
    in_process(tmp_path, WRITES + "pathlib.Path(sys.argv[1], 'trace.json.gz').write_bytes(bytes(2**21))")
    assert sorted(path.name for path in (tmp_path / "row").iterdir()) == ["output.log", "row.json"]


def test_a_gpu_is_needed_or_not(tmp_path: Path) -> None:
    Setting("cuda", tmp_path).needs_gpu()
    with pytest.raises(Skipped, match="needs a GPU"):
        Setting("cpu", tmp_path).needs_gpu()


def test_packages_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(Skipped, match="no-such-package: "):
        Setting("cpu", tmp_path).needs_perfkit("no-such-package")


def test_folders_are_named_after_devices() -> None:
    assert slugify("NVIDIA H100 80GB HBM3") == "nvidia-h100-80gb-hbm3"
