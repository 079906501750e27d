"""Every workload really trains: over a short run on the CPU its loss falls."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from perfkit.core.spec import parse_workload
from perfkit.workloads.model_loss import compute_loss
from perfkit.workloads.workload_table import WORKLOADS, load_workload

FILES = Path(__file__).parents[1] / "fixtures" / "workloads"
DOCS = Path(__file__).parents[2] / "docs"

SHORT_RUNS = [
    ("gpt:vocab=64:seq_len=64", 30, 0.75),
    pytest.param("gpt:size=nano:vocab=2000:seq_len=64", 60, 0.92, marks=pytest.mark.nightly),
    ("resnet:classes=2:image_size=32:batch_size=16", 20, 0.4),
    (f"{FILES}/mlp.py:build", 300, 0.8),
    (f"hf:{FILES}/llama", 60, 0.95),
    pytest.param(f"hf:{FILES}/bert.json", 150, 0.97, marks=pytest.mark.nightly),
    pytest.param(f"hf:{FILES}/vit.json:batch_size=16", 60, 0.9, marks=pytest.mark.nightly),
    pytest.param(f"hf:{FILES}/t5.json", 60, 0.95, marks=pytest.mark.nightly),
    (f"hf:{FILES}/llama:task=sequence-classification", 60, 0.5),
]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """The order of sums depends on the threads, and with it where so short a training has got to."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("text", "steps", "ratio"), SHORT_RUNS)
def test_loss_falls(text: str, steps: int, ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    if text.startswith("hf:"):
        pytest.importorskip("transformers")
    monkeypatch.setattr(sys, "path", list(sys.path))
    losses = train(text, steps)
    first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
    assert last < ratio * first, losses


def test_example_of_the_documentation_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    code = (DOCS / "workloads.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    losses = train(f"{tmp_path}/train.py:build:width=64:batch_size=16", 150)
    assert sum(losses[-5:]) < 0.95 * sum(losses[:5]), losses


def test_runs_of_one_seed_are_the_same() -> None:
    assert train("gpt:vocab=64:seq_len=32", 3) == train("gpt:vocab=64:seq_len=32", 3)


def train(text: str, steps: int) -> list[float]:
    workload = load_workload(parse_workload(text, WORKLOADS.list_names()))
    torch.manual_seed(0)
    model = workload.build_model()
    optimizer = workload.build_optimizer(model)
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(steps):
        loss = compute_loss(workload, model, workload.make_batch(generator))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
