"""Programs and workloads that set torch's newer switch of fp32, after which the older getter raises."""

from pathlib import Path

from perfkit.store.suite_reader import read_suite
from tests.fixtures.attached import UNDER_PERFKIT, finished

SWITCHED = """
import torch
torch.backends.fp32_precision = "tf32"
"""

TRAINS = """
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(20):
    optimizer.zero_grad()
    model(torch.randn(2, 3, 8, 8)).square().mean().backward()
    optimizer.step()
"""

WORKLOAD = """
from perfkit.workloads.workload import Workload

def tiny():
    return Workload(
        name="tiny",
        unit="samples",
        units_per_batch=2,
        build_model=lambda: torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 8)),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.01),
        make_batch=lambda generator: {"x": torch.randn(2, 3, 8, 8, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )
"""
SHORT = ("--warmup", "1", "--timed", "3", "--trace", "1", "--memory", "1")


def precisions(suite: Path) -> tuple[str | None, str | None, str | None]:
    (run,) = read_suite(suite).runs
    environment = run.ranks[0].record.environment
    return environment.matmul_precision, environment.conv_precision, environment.rnn_precision


def test_a_program_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SWITCHED + TRAINS)
    done = finished([*UNDER_PERFKIT, "--out", "run", "--no-report", *SHORT, "train.py"], cwd=tmp_path)
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    assert precisions(tmp_path / "run") == ("high", "tf32", "tf32")


def test_a_workload_is_measured(perfkit, tiny_schedule) -> None:
    (perfkit.folder / "work.py").write_text(SWITCHED + WORKLOAD)
    done = perfkit("bench", "--workload", "work.py:tiny", *tiny_schedule, "--technique", "baseline", "--out", "suite")
    assert done.returncode == 0, done.stderr
    assert perfkit.variants("suite")["baseline"]["status"] == "ok"
    assert precisions(perfkit.folder / "suite") == ("high", "tf32", "tf32")
