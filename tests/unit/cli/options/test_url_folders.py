"""Folders that are given as URLs, and their copies."""

import re
from pathlib import Path
from typing import Any

import fsspec
import pytest

import perfkit.measure.bench
from tests.fixtures.suites import record, write_suite

ARGUMENTS = ("-w", "gpt:size=nano", "-t", "amp", "--device", "cpu", "--no-calibrate")
WHERE = "memory://bucket/runs/x"


@pytest.fixture
def stored(tmp_path: Path) -> str:
    """A suite at a URL."""
    suite = write_suite(tmp_path / "made", {"baseline": [record(0.1)], "amp": [record(0.05)]})
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.put(f"{suite}/", "/bucket/runs/x/", recursive=True)
    return WHERE


@pytest.fixture(autouse=True)
def _empty() -> None:
    fsspec.filesystem("memory").store.clear()


def test_a_report_at_a_url_is_drawn_in_a_copy_and_written_back(perfkit_in_process: Any, stored: str) -> None:
    done = perfkit_in_process("report", "-q", stored)
    assert (done.returncode, done.stdout) == (0, "report: runs/x/report.html\n")
    there, back = done.stderr.splitlines()
    assert there.index(stored) < there.index(" runs/x")
    assert back.index(" runs/x") < back.index(stored)
    page = (perfkit_in_process.folder / "runs" / "x" / "report.html").read_bytes()
    assert fsspec.filesystem("memory").cat("/bucket/runs/x/report.html") == page
    assert perfkit_in_process("report", "-q", stored).stdout.split() == ["report:", "runs/x-2/report.html"]


def test_a_bench_is_written_where_nothing_is(
    perfkit_in_process: Any, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    done = perfkit_in_process("bench", *ARGUMENTS, "--out", stored)
    assert done.returncode == 2
    assert re.match(rf"Error: {re.escape(stored)} .*exists", done.stderr)

    def measured(request: object, folder: Path, **_: object) -> None:
        write_suite(folder, {"baseline": [record(0.1)], "amp": [record(0.05)]})
        raise KeyboardInterrupt

    monkeypatch.setattr(perfkit.measure.bench, "run_bench", measured)
    done = perfkit_in_process("bench", *ARGUMENTS, "--out", "memory://bucket/y")
    assert done.returncode == 130
    assert re.search(r"\bruns/y\b.* memory://bucket/y\n$", done.stderr)
    left = {Path(name).name for name in fsspec.filesystem("memory").find("/bucket/y")}
    assert left >= {"suite.json", "report.html", "record.json"}


def test_one_pod_needs_no_volume_for_a_url_and_several_do(perfkit_in_process: Any) -> None:
    asked = ("bench", "--out", "nowhere://b/x", "--world-size", "2", "--device", "cpu", "--image", "mine")
    done = perfkit_in_process(*asked, "--launcher", "kubernetes")
    assert done.returncode == 0, done.stderr
    assert "- nowhere://b/x\n" in done.stdout
    assert "volumeClaim" not in done.stdout
    several = perfkit_in_process(*asked, "--launcher", "kubernetes", "--nnodes", "2", "--volume-claim", "results")
    assert several.returncode == 2
    assert "--out nowhere://b/x" in several.stderr


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://bucket/none", "no such folder"),
        ("nowhere://bucket/x", "Protocol not known: nowhere"),
        ("memory://", "URL of a folder"),
    ],
)
def test_what_is_not_there_is_told(perfkit_in_process: Any, url: str, message: str) -> None:
    done = perfkit_in_process("report", url)
    assert done.returncode == 2
    assert message in done.stderr
    assert not any(perfkit_in_process.folder.iterdir())
