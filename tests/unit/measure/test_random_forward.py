"""Whether a model's forward draws random numbers is seen by the generators, not by the names of its modules."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from perfkit.instruments.recorder import Recorder
from perfkit.measure.setup import _measure_reference
from perfkit.record import RankRecord, Status
from perfkit.spec import RunSpec, WorkloadSpec
from tests.unit.techniques.tiny import WORKLOAD, make_batch, new_state


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x + torch.randn_like(x))


@pytest.mark.parametrize(("model", "draws"), [(nn.Linear(16, 16), 0.0), (Noisy(), 1.0), (nn.Dropout(0.1), 1.0)])
def test_the_generators_tell(model: nn.Module, draws: float, tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, RankRecord(rank=0, world_size=1, status=Status.OK))
    batch = make_batch(torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(16, 16), model)
    workload = replace(WORKLOAD, blocks=lambda _model: (), build_model=lambda: model)
    spec = RunSpec(workload=WorkloadSpec(name="gpt"))
    _measure_reference(spec, new_state(workload), batch, recorder)
    assert recorder.record.facts["random_forward"] == draws
