"""A batch that is looked at before training."""

import torch

from perfkit.workloads.workload import first_batch
from tests.fixtures.workloads.loaded import build


def test_a_dataloader_draws_nothing_of_the_process() -> None:
    before = torch.get_rng_state()
    batch = first_batch(build(noise=0.1), torch.Generator().manual_seed(0))
    assert batch["x"].shape == (4, 8)
    assert torch.equal(torch.get_rng_state(), before)
