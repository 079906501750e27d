"""The workloads of docs/workloads.md and examples/workloads run as they stand there, alone and with techniques."""

from pathlib import Path

import pytest
import torch

from perfkit.cost.live_flops import count_flops
from perfkit.measure.rank.train_step import train_step
from perfkit.workloads.user_workload import load_user_workload
from tests.unit.techniques.tiny import applied, batches, new_state

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
ON_THE_PAGE = {part.splitlines()[0].strip('"'): part.split("```")[0] for part in PAGE.split("```python\n")[1:]}
FILES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples" / "workloads").glob("*.py"))}
EXAMPLES = ON_THE_PAGE | FILES


def test_the_page_names_every_example() -> None:
    assert list(ON_THE_PAGE) == ["train.py"]
    assert all(f"(../examples/workloads/{name})" in PAGE for name in FILES)


EVERY_TIME = ("train.py", "grouped.py")  # the others train as these do, each with a model of its own


@pytest.fixture(
    params=[name if name in EVERY_TIME else pytest.param(name, marks=pytest.mark.nightly) for name in EXAMPLES]
)
def workload(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / request.param
    path.write_text(EXAMPLES[request.param], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    torch.manual_seed(0)
    return load_user_workload(f"{path}:build", {"batch_size": 4})


def test_it_learns_alone_and_with_techniques(workload) -> None:
    for variant in ("baseline", "amp+ckpt"):
        made = applied(variant, new_state(workload))
        losses = [train_step(made.state, batches(made.state, 0), index).item() for index in range(20)]
        assert losses[-1] < losses[0], variant
        made.state.close()


def test_its_blocks_are_recomputed_under_ckpt(workload) -> None:
    flops = []
    for variant in ("baseline", "ckpt"):
        made = applied(variant, new_state(workload))
        flops.append(count_flops(lambda state=made.state: train_step(state, batches(state, 0), 0)).matrix)
    assert flops[1] > flops[0]
