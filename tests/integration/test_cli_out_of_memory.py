"""A run that dies of memory tells what was alive and what was asked for."""

import re

import pytest

from perfkit.store.memory_file import read_allocations

# Each of the sigmoids keeps 256 MiB for backward, of which the limit admits a few; `wide` is a weight of 8 GiB.
WORKLOAD = """
import torch
from torch import nn
from perfkit import Workload

def build(wide=False):
    def model():
        first = nn.Linear(8, 2**28) if wide else nn.Linear(8, 1024)
        return nn.Sequential(first, *(nn.Sigmoid() for _ in range(20)), nn.Linear(1024, 1))

    return Workload(
        name="mine",
        unit="samples",
        units_per_batch=65536,
        build_model=model,
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.randn(65536, 8, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )
"""
LIMIT = ("--memory-limit", "3GiB")
KEPT = 65536 * 1024 * 4


@pytest.fixture(autouse=True)
def _workload(perfkit) -> None:
    (perfkit.folder / "mine.py").write_text(WORKLOAD)


def test_a_step_that_runs_out_of_memory_tells_what_was_alive(perfkit, tiny_schedule) -> None:
    result = perfkit("bench", "-w", "mine.py:build", "-t", "baseline", *LIMIT, *tiny_schedule, "--out", "s")
    assert result.returncode == 1, result.stderr
    [row] = perfkit.variants("s").values()
    assert row["status"] == "out of memory"
    assert re.search(r"step 0\b.*\d [MG]iB", row["reason"])
    recorded = read_allocations(perfkit.folder / "s/baseline/0/rank0/memory.parquet")
    failed = recorded.failed
    assert (failed.bytes, failed.phase, failed.step, failed.op) == (KEPT, "forward", 0, "aten::sigmoid")
    assert failed.line.startswith("mine.py:")
    alive = {part["category"]: part["bytes"] for part in row["memory"]["categories"]}
    # Sigmoids are numbered from 1; each before the one that failed keeps its output, and none its input.
    assert alive["activation"] == (int(failed.module) - 1) * KEPT
    assert alive["parameter"] == (8 * 1024 + 1024 + 1024 + 1) * 4
    assert row["memory"]["failed_request"]["module"] == failed.module
    assert row["memory"]["peak_bytes"] == sum(alive.values())
    shown = perfkit("report", "s")
    assert shown.returncode == 0, shown.stderr
    text = " ".join(shown.stdout.split())
    for figure in (
        "256 MiB",
        "aten::sigmoid",
        f"in {failed.module},",
        failed.line,
        "forward of step 0",
        "100 % activation",
    ):
        assert figure in text
    assert "Traceback" not in shown.stdout + shown.stderr


@pytest.mark.nightly
def test_running_out_of_memory_while_setting_up_is_reported_without_an_account(perfkit, tiny_schedule) -> None:
    arguments = ("-w", "mine.py:build:wide=true", "-t", "baseline", *LIMIT, *tiny_schedule)
    result = perfkit("bench", *arguments, "--out", "s")
    assert result.returncode == 1, result.stderr
    [row] = perfkit.variants("s").values()
    assert row["status"] == "out of memory"
    assert "step" not in row["reason"]
    assert re.search(r"\d [MG]iB", row["reason"])
    assert row["memory"] is None
    assert not (perfkit.folder / "s/baseline/0/rank0/memory.parquet").exists()
    shown = perfkit("report", "s")
    assert shown.returncode == 0, shown.stderr
    assert row["reason"].partition(",")[0][1:] in " ".join(shown.stdout.split())
    assert "Traceback" not in shown.stdout + shown.stderr
