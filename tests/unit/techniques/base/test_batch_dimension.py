"""Whether a batch has time first, as layers of torch take their inputs."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.techniques.base.batch_dimension import has_time_first
from perfkit.workloads.workload import Batch, Workload
from tests.fixtures.errors import has_id
from tests.unit.techniques.tiny import WORKLOAD, applied, new_state

FEATURES = 4


class Sequences(nn.Module):
    """A layer over sequences, whose batches may be turned to what it takes."""

    def __init__(self, layer: nn.Module, *, turned: bool) -> None:
        super().__init__()
        self.layer, self.turned = layer, turned

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.transpose(0, 1) if self.turned else x
        inputs = (x, x, x) if isinstance(self.layer, nn.MultiheadAttention) else (x,)
        result: torch.Tensor = self.layer(*inputs)[0]
        return result


def workload(layer: nn.Module, first: int, second: int, *, turned: bool = False) -> Workload:
    def make_batch(generator: torch.Generator) -> Batch:
        return {"x": torch.randn(first, second, FEATURES, generator=generator)}

    return replace(
        WORKLOAD,
        name="sequences",
        build_model=lambda: Sequences(layer, turned=turned),
        make_batch=make_batch,
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )


@pytest.mark.parametrize(
    ("layer", "turned", "time_first"),
    [
        (nn.LSTM(FEATURES, FEATURES), False, True),
        (nn.GRU(FEATURES, FEATURES), True, False),
        (nn.GRU(FEATURES, FEATURES, batch_first=True), False, False),
        (nn.MultiheadAttention(FEATURES, 2), False, True),
        (nn.MultiheadAttention(FEATURES, 2, batch_first=True), False, False),
        (nn.Linear(FEATURES, FEATURES), False, False),
    ],
)
def test_layers_tell_whether_time_is_first(layer: nn.Module, turned: bool, time_first: bool) -> None:
    assert has_time_first(new_state(workload(layer, 6, 2, turned=turned))) == time_first


def test_as_many_steps_as_samples_tell_nothing() -> None:
    assert not has_time_first(new_state(workload(nn.LSTM(FEATURES, FEATURES), 4, 4)))


def test_batches_with_time_first_are_not_accumulated() -> None:
    with pytest.raises(UnavailableError, check=has_id("skip.batch_dimension")):
        applied("accum", new_state(workload(nn.RNN(FEATURES, FEATURES), 6, 2)))
    samples_first = workload(nn.RNN(FEATURES, FEATURES, batch_first=True), 6, 2)
    assert applied("accum", new_state(samples_first)).state.microbatches == 2
