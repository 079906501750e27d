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


@pytest.mark.parametrize("made", [[torch.ones(2)], {"x": [1, 2]}, object()])
def test_a_batch_that_is_no_dict_of_tensors_is_refused(made: object) -> None:
    """A graph of another library, before its samples are counted."""
    from_function = replace(build(), make_loader=None, make_batch=lambda _generator: made)
    from_loader = replace(
        build(), make_loader=lambda _generator: DataLoader([0], batch_size=None, collate_fn=lambda _: made)
    )
    for workload in (from_function, from_loader):
        with pytest.raises(UsageError, match=workload.name):
            draw_first_batch(workload, torch.Generator())


def test_a_list_in_place_of_a_function_is_refused() -> None:
    with pytest.raises(UsageError, match=r"blocks .* is a list"):
        replace(build(), blocks=["0", "1"])
