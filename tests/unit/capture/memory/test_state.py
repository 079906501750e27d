"""What of the memory is the training state."""

import pytest
import torch
from torch import nn

from perfkit.allocations import BUFFER, GRADIENT, OPTIMIZER_STATE, PARAMETER, UNKNOWN
from perfkit.capture.memory.labels import Owner
from perfkit.capture.memory.state import other_blocks, owners, watched_gradients
from perfkit.capture.tensors import add_block
from perfkit.record import Block

CPU = torch.device("cpu")


def stepped() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_owners_of_parameters_buffers_and_optimizer_state() -> None:
    model, optimizer = stepped()
    found = owners(model, optimizer)
    assert found[model[0].weight._cdata] == Owner(PARAMETER, "0.weight")
    assert found[model[1].running_mean._cdata] == Owner(BUFFER, "1.running_mean")
    moments = optimizer.state[model[0].weight]
    assert found[moments["exp_avg"]._cdata] == Owner(OPTIMIZER_STATE, "exp_avg[0]")
    # 4 parameters, 3 buffers, and of each parameter two moments and its step
    assert len(found) == 4 + 3 + 4 * 3
    assert len(owners(model, None)) == 7


def test_owners_are_named_as_before_a_wrapper() -> None:
    model = nn.Sequential(nn.Linear(3, 4))
    compiled = torch.compile(model, backend="eager")
    assert owners(compiled, None)[model[0].weight._cdata].name == "0.weight"


def test_gradients_are_looked_at_before_every_update() -> None:
    model, optimizer = stepped()
    optimizer.zero_grad(set_to_none=True)
    found: dict[int, Owner] = {}
    blocks: dict[int, Block] = {}
    with watched_gradients(model, found, blocks):
        model(torch.randn(2, 3)).sum().backward()
        assert found == {}
        gradient = model[0].weight.grad
        assert gradient is not None
        optimizer.step()
    assert found[gradient._cdata] == Owner(GRADIENT, "0.weight")
    assert len(found) == len(blocks) == 4
    block = blocks[gradient.untyped_storage().data_ptr()]
    assert (block.size_bytes, block.category, block.name) == (48, GRADIENT, "0.weight")
    assert (block.shape, block.dtype) == ("[4, 3]", "fp32")


def test_gradients_of_views_share_a_block() -> None:
    """As with DDP, whose gradients are views of buckets."""
    weights = [nn.Parameter(torch.zeros(4)) for _ in range(2)]
    model = nn.ParameterList(weights)
    bucket = torch.zeros(8)
    for number, weight in enumerate(weights):
        weight.grad = bucket[4 * number : 4 * number + 4]
    found: dict[int, Owner] = {}
    blocks: dict[int, Block] = {}
    with watched_gradients(model, found, blocks):
        torch.optim.SGD(weights).step()
    assert [owner.name for owner in found.values()] == ["0", "1"]
    assert [(block.size_bytes, block.shape) for block in blocks.values()] == [(32, "")]


def test_nothing_is_watched_afterwards() -> None:
    model, optimizer = stepped()
    found: dict[int, Owner] = {}
    with pytest.raises(ValueError, match="on purpose"), watched_gradients(model, found, {}):
        raise ValueError("on purpose")
    optimizer.step()
    assert found == {}


def test_other_tensors_that_python_holds() -> None:
    model = nn.Sequential(nn.Linear(3, 4))
    weight = model[0].weight
    ours = [Block(address=weight.data_ptr(), size_bytes=48, category=PARAMETER, name="0.weight")]
    held, harness = torch.zeros(1237), torch.zeros(1239)
    view = held[:5]
    sparse = torch.eye(3).to_sparse()
    empty, meta = torch.empty(0), torch.empty(1241, device="meta")
    found = {block.address: block for block in other_blocks(CPU, ours, frozenset({harness.data_ptr()}))}
    assert found[held.data_ptr()].size_bytes == 1237 * 4
    assert found[held.data_ptr()].category == UNKNOWN
    assert found[model[0].bias.data_ptr()].size_bytes == 16, "whatever is not among ours"
    assert not found.keys() & {weight.data_ptr(), harness.data_ptr(), 0}
    assert 1241 * 4 not in {block.size_bytes for block in found.values()}
    assert view.is_cpu
    assert (sparse.is_sparse, empty.numel(), meta.is_meta) == (True, 0, True)


def test_a_storage_is_added_once_and_an_empty_one_not_at_all() -> None:
    blocks: dict[int, Block] = {}
    whole = torch.zeros(4, 2, dtype=torch.bfloat16)
    add_block(blocks, whole[1:], PARAMETER, "part")
    add_block(blocks, whole, PARAMETER, "whole")
    add_block(blocks, torch.empty(0), PARAMETER, "empty")
    assert list(blocks.values()) == [
        Block(address=whole.data_ptr(), size_bytes=16, category=PARAMETER, name="part", shape="", dtype="bf16")
    ]
