import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.archive import ARCHIVE
from benchmarks.gpu.packages import ROOT
from benchmarks.gpu.parts import Estimate, Part, PlannedRow
from benchmarks.gpu.rows import Found, Results, Row, Setting, measure_in_process
from benchmarks.gpu.runner import (
    ARCHIVE_S,
    END_S,
    INTERRUPTED,
    PATIENCE,
    PATIENCE_S,
    Options,
    Outcome,
    bound_repeated,
    leave_unbound,
    measure_parts,
    open_results,
    run,
)

MACHINE = {"device": "NVIDIA H200", "gpus": 1, "torch": "2.11.0+cu130", "cuda": "13.0"}
CLOSE_S = END_S + ARCHIVE_S


def never(setting: Setting) -> Found:
    raise AssertionError("rows are measured by processes of their own")


def planned(name: str, seconds: float, at_most_s: float = 100, script: str = "steps") -> PlannedRow:
    part = Part("a", script, "")
    return PlannedRow(part, Row(name, never, at_most_s), Estimate(seconds, "stated"))


class FakeRows:
    """Takes the place of rows' processes: a row takes its real seconds of a clock, or as many as it is given."""

    def __init__(self, takes: dict[str, float] | None = None, status: dict[str, str] | None = None) -> None:
        self.takes, self.status = takes or {}, status or {}
        self.now = 0.0
        self.begun: list[str] = []
        self.given_s: dict[str, float] = {}

    def __call__(self, row: PlannedRow, most_s: float) -> tuple[dict[str, Any], Sequence[str]]:
        name = row.row.name
        self.begun.append(name)
        self.given_s[name] = most_s
        takes = self.takes.get(name, row.estimate.seconds)
        self.now += min(takes, most_s)
        status = "failed" if takes > most_s else self.status.get(name, "ok")
        return {"status": status, "reason": "", "figures": {}, "seconds": min(takes, most_s)}, ()

    def measure(self, rows: Sequence[PlannedRow], results: dict[str, Results], **options: Any) -> list[Outcome]:
        outcomes: list[Outcome] = []
        measure_parts(rows, results, self, outcomes, now=lambda: self.now, **{"limit_s": 500, **options})
        return outcomes


@pytest.fixture
def results(tmp_path: Path) -> dict[str, Results]:
    return open_results(tmp_path, MACHINE, ["steps", "ranks"])


def statuses(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {outcome.planned.row.name: outcome.status for outcome in outcomes}


def test_rows_are_measured_in_order_and_saved_by_script(results: dict[str, Results], tmp_path: Path) -> None:
    rows = [planned("b", 50), planned("a", 10), planned("c", 1, script="ranks")]
    fake = FakeRows()
    assert statuses(fake.measure(rows, results)) == {"b": "ok", "a": "ok", "c": "ok"}
    assert fake.begun == ["b", "a", "c"]
    home = tmp_path / "nvidia-h200"
    assert list(json.loads((home / "steps.json").read_text())["rows"]) == ["b", "a"]
    assert list(json.loads((home / "ranks.json").read_text())["rows"]) == ["c"]


def test_a_saved_row_is_skipped(results: dict[str, Results], tmp_path: Path) -> None:
    FakeRows(status={"b": "failed"}).measure([planned("a", 1), planned("b", 1)], results)
    fake = FakeRows()
    again = open_results(tmp_path, MACHINE, ["steps"])
    outcomes = fake.measure([planned("a", 1), planned("b", 1), planned("c", 1)], again)
    assert fake.begun == ["c"]
    assert statuses(outcomes) == {"a": "measured already", "b": "measured already", "c": "ok"}


def test_a_row_is_begun_if_its_planned_seconds_fit(results: dict[str, Results]) -> None:
    """Its longest time need not; a later, cheaper row takes what is left."""
    rows = [planned("a", 60, at_most_s=300), planned("b", 50, at_most_s=300), planned("c", 40, at_most_s=300)]
    fake = FakeRows()
    outcomes = fake.measure(rows, results, limit_s=100 + CLOSE_S)
    assert statuses(outcomes) == {"a": "ok", "b": "not begun", "c": "ok"}
    assert fake.now == 100


def test_a_row_that_hangs_is_ended_at_the_limit(results: dict[str, Results]) -> None:
    fake = FakeRows(takes={"a": 10_000})
    outcomes = fake.measure([planned("a", 80, at_most_s=300), planned("b", 1)], results, limit_s=100)
    assert statuses(outcomes) == {"a": "failed", "b": "not begun"}
    assert fake.now == 100 - CLOSE_S


def test_a_row_that_hangs_does_not_take_the_time_of_the_others(results: dict[str, Results]) -> None:
    fake = FakeRows(takes={"a": 10_000})
    outcomes = fake.measure([planned("a", 10, at_most_s=300), planned("b", 1)], results)
    assert statuses(outcomes) == {"a": "failed", "b": "ok"}
    assert fake.given_s["a"] == PATIENCE * 10 + PATIENCE_S


def test_a_row_never_gets_more_than_its_longest_time(results: dict[str, Results]) -> None:
    fake = FakeRows()
    fake.measure([planned("a", 50, at_most_s=60)], results)
    assert fake.given_s["a"] == 60


def test_on_a_cpu_a_row_may_take_all_that_is_left(results: dict[str, Results]) -> None:
    fake = FakeRows(takes={"a": 300})
    outcomes = fake.measure([planned("a", 10, at_most_s=60)], results, bound_s=leave_unbound)
    assert (statuses(outcomes), fake.given_s["a"]) == ({"a": "ok"}, 500 - CLOSE_S)


def test_failed_rows_are_repeated_the_cheapest_first(results: dict[str, Results]) -> None:
    rows = [planned("a", 90, at_most_s=120), planned("b", 5), planned("c", 30), planned("d", 20)]
    first = FakeRows(status={"a": "failed", "c": "wrong", "d": "failed", "b": "ok"})
    first.measure(rows, results)
    second = FakeRows(status={"c": "wrong"})
    outcomes = second.measure(rows, results, limit_s=240, repeat_failed=True, bound_s=bound_repeated)
    assert second.begun == ["d", "c", "a"]
    assert second.given_s["a"] == 120  # all of its time
    assert statuses(outcomes) == {"d": "ok", "c": "wrong", "a": "ok"}
    entries = results["steps"].rows
    assert (entries["d"]["status"], entries["d"]["earlier"][0]["status"]) == ("ok", "failed")
    assert [ended["status"] for ended in entries["c"]["earlier"]] == ["wrong"]
    assert "earlier" not in entries["b"]


def test_nothing_failed_and_nothing_is_repeated(results: dict[str, Results]) -> None:
    FakeRows().measure([planned("a", 1)], results)
    assert FakeRows().measure([planned("a", 1), planned("b", 1)], results, repeat_failed=True) == []


def test_results_are_packed_after_every_row(results: dict[str, Results]) -> None:
    packed: list[int] = []
    FakeRows().measure([planned("a", 1), planned("b", 1)], results, after_row=lambda: packed.append(1))
    assert len(packed) == 2


def test_rows_of_another_torch_are_kept_apart(tmp_path: Path) -> None:
    FakeRows().measure([planned("a", 1)], open_results(tmp_path, MACHINE, ["steps"]))
    other = open_results(tmp_path, {**MACHINE, "torch": "2.13.0"}, ["steps"])
    assert other["steps"].rows == {}
    assert other["steps"].path.parent.name == "nvidia-h200-torch-2-13-0-1"


def run_fakes(
    results: dict[str, Results], tmp_path: Path, measure: Callable[..., Any], rows: Sequence[PlannedRow]
) -> tuple[int, list[str]]:
    archive = tmp_path / "out" / ARCHIVE
    code = run(rows, results, measure, archive, Options(limit_s=100))
    with tarfile.open(archive) as packed:
        return code, packed.getnames()


def test_a_run_ends_with_an_archive_and_a_table(
    results: dict[str, Results], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, names = run_fakes(results, tmp_path, FakeRows(), [planned("a", 7), planned("b", 1000)])
    assert (code, names) == (0, ["nvidia-h200/steps.json"])
    cells = {tuple(line.split()[:5]) for line in capsys.readouterr().out.splitlines()}
    assert ("steps", "a", "ok", "7", "7") in cells
    assert ("steps", "b", "not", "begun", "1000") in cells


def test_a_run_with_a_failed_row_exits_1(results: dict[str, Results], tmp_path: Path) -> None:
    code, _ = run_fakes(results, tmp_path, FakeRows(status={"a": "wrong"}), [planned("a", 1), planned("b", 1)])
    assert code == 1
    assert list(results["steps"].rows) == ["a", "b"]


def test_an_interrupt_ends_the_run_and_not_the_packing(results: dict[str, Results], tmp_path: Path) -> None:
    fake = FakeRows()

    def measure(row: PlannedRow, most_s: float) -> tuple[dict[str, Any], Sequence[str]]:
        if row.row.name == "b":
            raise KeyboardInterrupt
        return fake(row, most_s)

    code, names = run_fakes(results, tmp_path, measure, [planned(name, 1) for name in "abc"])
    assert (code, names) == (INTERRUPTED, ["nvidia-h200/steps.json"])
    entries = json.loads(results["steps"].path.read_text())["rows"]
    assert {name: entry["status"] for name, entry in entries.items()} == {"a": "ok", "b": "failed"}


@pytest.mark.slow
def test_the_process_of_a_hanging_row_is_gone_after_the_limit(results: dict[str, Results], tmp_path: Path) -> None:
    """One that is deaf to the interrupt, as a hung kernel is."""
    code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"

    def measure(row: PlannedRow, most_s: float) -> tuple[dict[str, Any], Sequence[str]]:
        limited = Row(row.row.name, never, most_s)
        return measure_in_process([sys.executable, "-c", code], limited, tmp_path / "row", grace_s=0.2)

    begun = time.monotonic()
    exit_code, _ = run_fakes_within(results, tmp_path, measure, CLOSE_S + 1.5)
    assert exit_code == 1
    assert time.monotonic() - begun < 60
    assert results["steps"].rows["a"]["status"] == "failed"


def run_fakes_within(
    results: dict[str, Results], tmp_path: Path, measure: Callable[..., Any], limit_s: float
) -> tuple[int, Path]:
    archive = tmp_path / ARCHIVE
    return run([planned("a", 1)], results, measure, archive, Options(limit_s)), archive


@pytest.mark.nightly
def test_run_sh_packs_what_it_has_when_it_is_terminated(tmp_path: Path) -> None:
    command = ["benchmarks/gpu/run.sh", "--device", "cpu", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHON": sys.executable, "OUT": str(tmp_path / "out")}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("stands packages: planned"):
                process.send_signal(signal.SIGTERM)
                break
        process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    with tarfile.open(tmp_path / "out" / ARCHIVE) as packed:
        assert packed.getnames() == ["cpu/stands.json"]
    assert "versions" in json.loads((tmp_path / "cpu" / "stands.json").read_text())["rows"]


@pytest.mark.slow
def test_a_plan_is_printed_without_any_package() -> None:
    """A machine that lacks torch or a wheel still says what it would measure, and which rows lack what."""
    command = [sys.executable, "-S", "-m", "benchmarks.gpu.runner", "--plan"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("parts: a ")
