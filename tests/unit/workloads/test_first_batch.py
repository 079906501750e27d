"""A batch that is looked at before training."""

from dataclasses import replace

import pytest
import torch
from torch.utils.data import DataLoader

from perfkit.core.errors import UsageError
from perfkit.workloads.workload import draw_first_batch
from tests.fixtures.workloads.loaded import build


def test_a_dataloader_draws_nothing_of_the_process() -> None:
    before = torch.get_rng_state()
    batch = draw_first_batch(build(noise=0.1), torch.Generator().manual_seed(0))
    assert batch["x"].shape == (4, 8)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_dataloader_without_a_batch_is_refused() -> None:
    workload = replace(build(), make_loader=lambda generator: DataLoader([]))
    with pytest.raises(UsageError, match="DataLoader"):
        draw_first_batch(workload, torch.Generator())
