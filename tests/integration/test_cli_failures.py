"""Runs that end badly are results: a row with a status and a reason, exit code 1, and the other runs are kept."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# A user's workload; FAULT is what goes wrong, at the third loss of the third variant's process where it says so.
WORKLOAD = """
import os, signal, sys, time
import torch
from torch import nn
from perfkit import Workload

def broken_helper():
    raise RuntimeError("the user's own mistake")

def build(fault="", at=3):
    if fault == "build":
        broken_helper()
    calls = 0

    def model():
        if fault == "model":
            broken_helper()
        return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))

    def loss(model, batch):
        nonlocal calls
        calls += 1
        if calls == at:
            if fault == "loss":
                broken_helper()
            if fault == "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            if fault == "sleep" and os.environ["RANK"] == "1":
                time.sleep(1000)
        return model(batch["x"]).square().mean()

    return Workload(
        name="mine",
        unit="samples",
        units_per_batch=4,
        build_model=model,
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.randn(4, 8, generator=generator)},
        loss=loss,
    )
"""


@pytest.fixture(autouse=True)
def _workload(perfkit) -> None:
    (perfkit.folder / "mine.py").write_text(WORKLOAD)


def test_a_workload_that_cannot_be_built_shows_the_users_traceback_and_nothing_of_ours(perfkit) -> None:
    result = perfkit("bench", "-w", "mine.py:build:fault=build", "-t", "baseline", "--no-calibrate", "--out", "s")
    assert result.returncode == 1
    assert "broken_helper()" in result.stderr
    assert "RuntimeError: the user's own mistake" in result.stderr
    assert "perfkit_cli" not in result.stderr
    assert "perfkit/workloads" not in result.stderr


@pytest.mark.parametrize("fault", [pytest.param("model", marks=pytest.mark.nightly), "loss"])
def test_a_workload_that_raises_in_training_shows_the_users_traceback_and_nothing_of_ours(
    perfkit, tiny_schedule, fault: str
) -> None:
    result = perfkit("bench", "-w", f"mine.py:build:fault={fault}", "-t", "baseline", *tiny_schedule, "--out", "s")
    assert result.returncode == 1, result.stderr
    [row] = perfkit.variants("s").values()
    assert row["status"] == "failed"
    assert "RuntimeError: the user's own mistake" in row["traceback"]
    assert "broken_helper" in row["traceback"]
    shown = result.stdout + result.stderr
    for text in (row["traceback"], shown):
        assert "perfkit/instruments" not in text
        assert "perfkit/measure" not in text
    assert "RuntimeError: the user's own mistake" in shown
    assert 'mine.py", line' in shown


def test_a_crash_by_signal_is_a_row_that_names_it(perfkit, tiny_schedule) -> None:
    result = perfkit("bench", "-w", "mine.py:build:fault=segfault", "-t", "baseline", *tiny_schedule, "--out", "s")
    assert result.returncode == 1, result.stderr
    [row] = perfkit.variants("s").values()
    assert row["status"] == "crashed"
    assert "SIGSEGV" in row["reason"]


@pytest.mark.nightly
def test_a_run_that_takes_too_long_is_a_row_that_names_who_had_not_come(perfkit, tiny_schedule) -> None:
    waits = ("--world-size", "2", "--timeout", "20")
    arguments = ("-w", "mine.py:build:fault=sleep:at=5", "-t", "baseline", *tiny_schedule, *waits)
    result = perfkit("bench", *arguments, "--out", "s")
    assert result.returncode == 1, result.stderr
    [row] = perfkit.variants("s").values()
    assert row["status"] == "timeout"
    assert "--timeout" in row["reason"]
    assert re.search(r"rank 1 .*\bbroadcast\b", row["reason"])
    assert [(wait["rank"], wait["op"], wait["finished"]) for wait in row["rank_waits"]] == [
        (0, "broadcast", False),
        (1, "all_reduce", True),
    ]
    assert "in loss" in row["traceback"]  # where rank 1 slept
    assert re.search(r"rank 0\b.*\bbroadcast\b", result.stderr)


def wait_for(process: subprocess.Popen[str], text: str) -> str:
    """Read the process's standard error up to the line that has `text`."""
    assert process.stderr is not None
    seen = ""
    for line in process.stderr:
        seen += line
        if text in line:
            return seen
    pytest.fail(f"never said {text!r}:\n{seen}")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_an_interrupt_keeps_what_was_measured(perfkit, tiny, number: signal.Signals) -> None:
    process = perfkit.start("bench", *tiny, "--technique", "amp,ckpt", "--out", "s")
    wait_for(process, "amp: starting")
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 128 + number, err
    assert "--resume s" in err
    assert "Traceback" not in err
    assert out.splitlines()[-1].endswith(" s/report.html")
    variants = perfkit.variants("s")
    assert variants["baseline"]["status"] == "ok"
    assert variants["amp"]["status"] == "interrupted"
    again = perfkit("report", "s", "--quiet")
    assert again.returncode == 0, again.stderr


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own of the given size; the test is skipped where it cannot be mounted."""
    folder.mkdir()
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("a file system can only be mounted by root")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_leaves_earlier_runs_intact(perfkit, tiny) -> None:
    with small_disk(perfkit.folder / "disk", "64m") as disk:
        process = perfkit.start("bench", *tiny, "--technique", "amp", "--out", "disk/s")
        wait_for(process, "baseline: done")
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while filler.write(bytes(65536)):
                pass
        _, err = process.communicate(timeout=120)
        assert process.returncode == 1, err
        assert "No space left on device" in err
        assert "disk/s/amp/0" in err
        assert "Traceback" not in err
        (disk / "filler").unlink()
        again = perfkit("report", "disk/s")
        assert again.returncode == 0, again.stderr
        assert perfkit.variants("disk/s")["baseline"]["status"] == "ok"
