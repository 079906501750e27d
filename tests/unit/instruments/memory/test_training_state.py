"""What of the memory is the training state."""

import time

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from perfkit.core.allocations import BUFFER, GRADIENT, OPTIMIZER_STATE, PARAMETER, UNKNOWN, InitialBlock
from perfkit.instruments.memory.block_labels import TensorOwner
from perfkit.instruments.memory.training_state import find_other_blocks, find_owners, watch_gradients
from perfkit.instruments.training.tensors import add_block
from perfkit.instruments.training.trained_models import TrainedModels

CPU = torch.device("cpu")


def one(model: nn.Module, *optimizers: torch.optim.Optimizer) -> TrainedModels:
    return TrainedModels(CPU, {"": model}, optimizers)


def watchers(optimizer: torch.optim.Optimizer) -> int:
    return len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)


def stepped() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_owners_of_parameters_buffers_and_optimizer_state() -> None:
    model, optimizer = stepped()
    found = find_owners(one(model, optimizer))
    assert found[model[0].weight._cdata] == TensorOwner(PARAMETER, "0.weight")
    assert found[model[1].running_mean._cdata] == TensorOwner(BUFFER, "1.running_mean")
    moments = optimizer.state[model[0].weight]
    assert found[moments["exp_avg"]._cdata] == TensorOwner(OPTIMIZER_STATE, "exp_avg[0]")
    # 4 parameters, 3 buffers, and of each parameter two moments and its step
    assert len(found) == 4 + 3 + 4 * 3
    assert len(find_owners(one(model))) == 7


def test_owners_are_named_as_before_a_wrapper() -> None:
    model = nn.Sequential(nn.Linear(3, 4))
    compiled = torch.compile(model, backend="eager")
    assert find_owners(one(compiled))[model[0].weight._cdata].name == "0.weight"


def test_gradients_are_looked_at_before_every_update() -> None:
    model, optimizer = stepped()
    optimizer.zero_grad(set_to_none=True)
    with watch_gradients(one(model, optimizer)) as found:
        before = time.time_ns()
        model(torch.randn(2, 3)).sum().backward()
        assert found == {}
        gradient = model[0].weight.grad
        assert gradient is not None
        optimizer.step()
    assert len(found) == 4
    first, last = found[gradient.untyped_storage().data_ptr()]
    assert before <= first.time_ns <= last.time_ns <= time.time_ns()
    assert first.block == last.block
    assert (first.block.size_bytes, first.block.category, first.block.name) == (48, GRADIENT, "0.weight")
    assert (first.block.shape, first.block.dtype) == ("[4, 3]", "fp32")


def test_gradients_of_a_backward_inside_of_the_step() -> None:
    model, optimizer = stepped()
    optimizer.zero_grad(set_to_none=True)

    def closure() -> torch.Tensor:
        loss = model(torch.randn(2, 3)).sum()
        loss.backward()
        return loss

    with watch_gradients(one(model, optimizer)) as found:
        optimizer.step(closure)
    addresses = {each.grad.data_ptr(): name for name, each in model.named_parameters()}
    assert {address: [each.block.name for each in seen] for address, seen in found.items()} == {
        address: [name] for address, name in addresses.items()
    }


def test_gradients_that_another_optimizer_is_to_use_are_seen_by_their_name() -> None:
    models = {"a": nn.Linear(2, 3, bias=False), "b": nn.Linear(2, 3, bias=False)}
    optimizers = tuple(torch.optim.SGD(model.parameters()) for model in models.values())
    for model in models.values():
        model.weight.grad = torch.zeros(3, 2)
    with watch_gradients(TrainedModels(CPU, models, optimizers)) as found:
        optimizers[0].step()
    assert sorted(seen[0].block.name for seen in found.values()) == ["a.weight", "b.weight"]


def test_gradients_of_parameters_that_no_model_has_are_without_a_name() -> None:
    extra = nn.Parameter(torch.zeros(2))
    extra.grad = torch.zeros(2)
    optimizer = torch.optim.SGD([extra])
    with watch_gradients(one(nn.Linear(2, 2), optimizer)) as found:
        optimizer.step()
    assert [seen[0].block.name for seen in found.values()] == [""]


def test_gradients_of_views_share_a_block() -> None:
    """As with DDP, whose gradients are views of buckets."""
    weights = [nn.Parameter(torch.zeros(4)) for _ in range(2)]
    bucket = torch.zeros(8)
    for number, weight in enumerate(weights):
        weight.grad = bucket[4 * number : 4 * number + 4]
    optimizer = torch.optim.SGD(weights)
    with watch_gradients(one(nn.ParameterList(weights), optimizer)) as found:
        optimizer.step()
    assert [[(each.block.size_bytes, each.block.shape) for each in seen] for seen in found.values()] == [
        [(32, ""), (32, "")]
    ]


@pytest.mark.parametrize("register", [register_optimizer_step_pre_hook, register_optimizer_step_post_hook])
def test_watching_can_begin_and_end_within_a_hook_for_all_optimizers(register) -> None:
    model, optimizer = stepped()
    watch = watch_gradients(one(model, optimizer))
    found = []

    def hook(*_: object) -> None:
        if not found:
            found.append(watch.__enter__())
        else:
            watch.__exit__(None, None, None)

    handles = [register(hook), register(lambda *_: None)]
    try:
        optimizer.step()
        optimizer.step()
    finally:
        for handle in handles:
            handle.remove()
    assert len(found[0]) == 4
    assert watchers(optimizer) == 0


def test_nothing_is_watched_afterwards() -> None:
    model, optimizer = stepped()
    with pytest.raises(ValueError, match=r"^2 hooks"), watch_gradients(one(model, optimizer)):
        raise ValueError(f"{watchers(optimizer)} hooks")
    assert watchers(optimizer) == 0


def test_other_tensors_that_python_holds() -> None:
    model = nn.Sequential(nn.Linear(3, 4))
    weight = model[0].weight
    ours = [InitialBlock(address=weight.data_ptr(), size_bytes=48, category=PARAMETER, name="0.weight")]
    held, harness = torch.zeros(1237), torch.zeros(1239)
    view = held[:5]
    sparse = torch.eye(3).to_sparse()
    empty, meta = torch.empty(0), torch.empty(1241, device="meta")
    functional = torch._to_functional_tensor(torch.empty(1243))  # what compiling leaves behind
    found = {block.address: block for block in find_other_blocks(CPU, ours, frozenset({harness.data_ptr()}))}
    assert found[held.data_ptr()].size_bytes == 1237 * 4
    assert found[held.data_ptr()].category == UNKNOWN
    bias = found[model[0].bias.data_ptr()]
    assert (bias.size_bytes, bias.category) == (16, PARAMETER), "whatever is not among ours"
    assert not found.keys() & {weight.data_ptr(), harness.data_ptr(), 0}
    assert 1241 * 4 not in {block.size_bytes for block in found.values()}
    assert view.is_cpu
    assert functional.shape == (1243,)
    assert (sparse.is_sparse, empty.numel(), meta.is_meta) == (True, 0, True)


def test_a_storage_is_added_once_and_an_empty_one_not_at_all() -> None:
    blocks: dict[int, InitialBlock] = {}
    whole = torch.zeros(4, 2, dtype=torch.bfloat16)
    add_block(blocks, whole[1:], PARAMETER, "part")
    add_block(blocks, whole, PARAMETER, "whole")
    add_block(blocks, torch.empty(0), PARAMETER, "empty")
    assert list(blocks.values()) == [
        InitialBlock(address=whole.data_ptr(), size_bytes=16, category=PARAMETER, name="part", shape="", dtype="bf16")
    ]
