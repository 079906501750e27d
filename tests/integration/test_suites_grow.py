"""A suite that is killed goes on, and one that is there grows, with the real command line."""

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from perfkit.core.record.rank_record import RunStatus
from perfkit.store.layout import SUITE_FILE
from perfkit.store.suite_reader import read_suite

TRAIN = """
import torch

import perfkit


def build():
    return perfkit.Workload(
        name="tiny", unit="samples", units_per_batch=4,
        build_model=lambda: torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.randn(4, 8, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )
"""
FIRST = ("-w", "train.py:build", "-t", "amp", "--threads", "1", "--warmup", "2", "--steps", "4", "--rounds", "2")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "perfkit_cli", "bench", *arguments, "--no-calibrate"]


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd=folder, capture_output=True, text=True, timeout=300)


def wait_for(file: Path) -> None:
    for _ in range(1200):
        if file.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{file} was not written within a minute")


@pytest.mark.nightly
def test_a_killed_suite_is_resumed_and_then_grows(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    killed = subprocess.Popen(command(*FIRST, "--out", "suite"), cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    suite = tmp_path / "suite"
    wait_for(suite / "baseline/0/spec.json")
    refused = bench(tmp_path, "--resume", "suite")
    assert refused.returncode == 2
    assert str(killed.pid) in refused.stderr
    wait_for(suite / "amp/0/spec.json")
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    baseline = (suite / "baseline/0/run.json").read_bytes()

    resumed = bench(tmp_path, "--resume", "suite")
    assert resumed.returncode == 0, resumed.stderr
    assert (suite / "baseline/0/run.json").read_bytes() == baseline
    stored = read_suite(suite)
    by_turns = Counter(run.variant for run in stored.runs if run.run.interleaved_variants)
    assert by_turns == {"baseline": 2, "amp": 2}
    assert {run.run.status for run in stored.runs} == {RunStatus.OK}
    assert stored.suite.sampling is not None
    assert stored.suite.sampling.end_reason.startswith("2 rounds")

    grown = bench(tmp_path, "--into", "suite", "-t", "inplace", "--rounds", "1", "--price", "$3.60/h")
    assert grown.returncode == 0, grown.stderr
    assert "$/1k" in grown.stdout
    report = json.loads((suite / "report.json").read_text())
    inplace = next(variant for variant in report["variants"] if variant["name"] == "inplace")
    assert (inplace["difference"]["pairs"], inplace["parity"]["verdict"]) == (1, "equal")
    assert inplace["cost"]["unit"] == "$ per 1k samples"
    assert [session["variants"] for session in report["sessions"]] == [["baseline", "amp"], ["baseline", "inplace"]]

    before = (suite / SUITE_FILE).read_bytes()
    (tmp_path / "train.py").write_text(TRAIN + "\n")
    refused = bench(tmp_path, "--into", "suite", "-t", "ckpt", "--seed", "1")
    assert refused.returncode == 2
    assert re.search(r"seed: 0 -> 1\n.*train\.py: \w+ -> \w+", refused.stderr), refused.stderr
    assert (suite / SUITE_FILE).read_bytes() == before
