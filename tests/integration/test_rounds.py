"""Rounds of processes that step by turns, from the real command line to the report."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.store.suite_reader import read_suite

SMALL = ("--workload", "gpt:size=nano", "--batch-size", "1", "--seq-len", "32", "--threads", "1", "--no-calibrate")
SCHEDULE = ("--warmup", "2", "--steps", "4")

# A workload whose third process, the first of a round, does not get to its first step.
COUNTED = """
import os
from pathlib import Path

import torch

import perfkit


def build():
    started = Path(__file__).with_name("started")
    if "RANK" in os.environ:
        with started.open("a") as file:
            file.write("x")
        if started.stat().st_size == 3:
            raise RuntimeError("the third time it fails")
    return perfkit.Workload(
        name="counted", unit="samples", units_per_batch=4,
        build_model=lambda: torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.randn(4, 8, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )
"""


def bench(folder: Path, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perfkit_cli", "bench", *arguments, "--out", "suite"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, **options)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    folder = tmp_path_factory.mktemp("rounds")
    done = bench(folder, *SMALL, *SCHEDULE, "-t", "ckpt", "--rounds", "2")
    assert done.returncode == 0, done.stderr
    return done, folder / "suite"


def test_a_round_has_a_process_of_each_and_every_turn_a_step_of_each(measured) -> None:
    suite = read_suite(measured[1])
    assert [(run.variant, run.repeat) for run in suite.runs[:2]] == [("baseline", 0), ("ckpt", 0)]
    assert sorted((run.variant, run.repeat) for run in suite.runs[2:]) == [
        (name, repeat) for name in ("baseline", "ckpt") for repeat in (1, 2)
    ]
    for run in suite.runs[2:]:
        assert sorted(run.run.interleaved_variants) == ["baseline", "ckpt"]
        assert run.run.load is not None
        assert run.run.load.seconds == run.run.seconds
        [rank] = run.ranks
        assert len(rank.record.samples.wall_s) == len(rank.record.samples.cpu_s) == 4
        assert len(rank.record.warmup.wall_s) >= 2
        assert rank.trace is None  # instruments ran once
    assert [len(run.ranks[0].record.samples.wall_s) for run in suite.runs[:2]] == [4, 4]
    assert all(run.ranks[0].trace for run in suite.runs[:2])


def test_the_times_and_the_comparison_are_those_of_the_rounds(measured) -> None:
    analysis = analyze_suite(measured[1])
    ckpt = next(variant for variant in analysis.variants if variant.name == "ckpt")
    assert ckpt.difference.pairs == 2
    assert len(ckpt.step_time.per_process) == 2
    assert analysis.sampling.rounds == 2
    assert ckpt.parity.steps >= 4


def test_each_round_is_told_with_what_is_left(measured) -> None:
    lines = [line for line in measured[0].stderr.splitlines() if line.startswith("round")]
    assert re.match(r"round 1 of (ckpt, baseline|baseline, ckpt): ", lines[0])
    assert re.match(r"round 1: .*\d m?s", lines[1])
    assert re.match(r"round 2 of .*\d m?s", lines[2])
    assert re.match(r"round 2: .*ckpt.*\d", lines[3])


def test_a_variant_that_fails_in_a_round_is_told_and_the_others_of_the_round_are_withdrawn(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COUNTED)
    done = bench(tmp_path, "-w", "train.py:build", *SMALL[-3:], *SCHEDULE, "-t", "amp", "--rounds", "1")
    assert done.returncode == 1
    assert "the third time it fails" in done.stdout + done.stderr
    report = json.loads((tmp_path / "suite" / "report.json").read_text())
    ends = {variant["name"]: variant["status"] for variant in report["variants"]}
    assert sorted(ends.values()) == ["failed", "ok"]
    [failed] = [name for name, status in ends.items() if status == "failed"]
    assert [(run.variant, run.repeat) for run in read_suite(tmp_path / "suite").runs[2:]] == [(failed, 1)]
    assert sorted(path.name for path in (tmp_path / "suite").glob("*/1")) == ["1"]


@pytest.mark.nightly
def test_what_is_interrupted_in_a_round_keeps_what_was_measured_before(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perfkit_cli", "bench", *SMALL, "-t", "ckpt", "--rounds", "9", "--out", "suite"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("round 2 of"):
            break
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((tmp_path / "suite").glob("*/2/rank0/record.json")):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    suite = read_suite(tmp_path / "suite")
    assert max(run.repeat for run in suite.runs) == 1
    assert not list((tmp_path / "suite").glob("*/2"))
    assert [variant.status.value for variant in analyze_suite(tmp_path / "suite").variants] == ["ok", "ok"]
