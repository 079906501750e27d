"""What a technique keeps from step to step, by category."""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

from perfkit.analysis.suite.kept_copies import find_kept_copies
from perfkit.core.record.rank_record import RankRecord
from perfkit.instruments.facts.live_bytes import measure_live_bytes, sum_declared_bytes
from perfkit.instruments.training.live_objects import find_instances
from perfkit.instruments.training.tensors import has_storage
from perfkit.techniques.activations.offload import Offload
from perfkit.techniques.base.state import TrainState
from tests.fixtures.suites import record
from tests.unit.techniques.facts import storage_bytes
from tests.unit.techniques.tiny import FOUR_BLOCKS, applied, new_state, train

Hidden = list[Any]
Sabotage = Callable[[TrainState, Hidden], None]


def measure(
    variant: str, sabotage: Sabotage = lambda _state, _hidden: None, device: torch.device | None = None
) -> RankRecord:
    """The record of a variant that keeps what `sabotage` hides; as if it had trained on `device`."""
    gc.collect()
    before = find_instances(torch.Tensor)  # kept, so that no new storage has an address of theirs
    earlier = frozenset(tensor.untyped_storage().data_ptr() for tensor in before if has_storage(tensor))
    state = new_state(FOUR_BLOCKS)
    parameters = storage_bytes(state.model.parameters())
    made = applied(variant, state)
    hidden: Hidden = []
    sabotage(made.state, hidden)
    try:
        train(made.state, steps=2)
        declared = sum_declared_bytes(made.techniques, made.state)
        made.state.device = device or made.state.device
        live = measure_live_bytes(made.state, earlier)
    finally:
        made.state.close()
    return record(facts={"reference_parameter_bytes": parameters, **live, **declared})


@pytest.fixture(scope="module")
def baseline() -> RankRecord:
    return measure("baseline")


@pytest.mark.parametrize(
    "variant",
    ["bf16", "amp", "flash", "ckpt", "prune", "lora", "compress", "offload:what=parameters:to=disk", "optim:use=sgd"],
)
def test_techniques_declare_what_they_keep(variant: str, baseline: RankRecord) -> None:
    assert find_kept_copies([measure(variant)], [baseline]) == ()


def keep_fp32_weights(state: TrainState, hidden: Hidden) -> None:
    hidden += [parameter.detach().float() for parameter in state.model.parameters()]


def hoard_gradients(state: TrainState, hidden: Hidden) -> None:
    def keep(parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        hidden.append({"gradient": parameter.grad.clone()})

    for parameter in state.model.parameters():
        parameter.register_post_accumulate_grad_hook(keep)


def keep_device_copies(state: TrainState, hidden: Hidden) -> None:
    hidden += [parameter.detach().clone() for block in state.blocks for parameter in block.parameters()]


def keep_buffers(state: TrainState, _hidden: Hidden) -> None:
    for block in state.blocks[:2]:
        weights = torch.cat([parameter.detach().flatten() for parameter in block.parameters()])
        block.register_buffer("master", weights)


def keep_moments_twice(state: TrainState, _hidden: Hidden) -> None:
    for optimizer in state.optimizers.values():

        def keep(chosen: torch.optim.Optimizer, *_of_the_call: object) -> None:
            for moments in chosen.state.values():
                moments["old"] = moments["exp_avg"].clone()

        optimizer.register_step_post_hook(keep)


def keep_first_block(state: TrainState, hidden: Hidden) -> None:
    """A quarter of the parameters stays out of sight in a module of its own."""
    hidden.append(torch.nn.ParameterList(parameter.detach().clone() for parameter in state.blocks[0].parameters()))


@pytest.mark.parametrize(
    ("variant", "sabotage", "category", "ratio", "dtypes"),
    [
        ("bf16", keep_fp32_weights, "other", 1.0, ("fp32",)),
        ("accum", hoard_gradients, "other", 2.0, ("fp32",)),  # two steps' gradients
        ("offload:what=parameters:to=disk", keep_device_copies, "other", 0.98, ("fp32",)),
        ("amp", keep_buffers, "buffer", 0.49, ()),
        ("flash", keep_moments_twice, "optimizer state", 1.0, ()),
        ("ckpt", keep_first_block, "other", 0.25, ("fp32",)),
    ],
)
def test_hidden_copies_are_found(
    variant: str, sabotage: Sabotage, category: str, ratio: float, dtypes: tuple[str, ...], baseline: RankRecord
) -> None:
    (copies,) = find_kept_copies([measure(variant, sabotage)], [baseline])
    assert (copies.category, copies.dtypes) == (category, dtypes)
    assert copies.kept_bytes / copies.parameter_bytes == pytest.approx(ratio, abs=0.03)


def keep_half_in_fp64(state: TrainState, hidden: Hidden) -> None:
    hidden += [parameter.detach().double() for block in state.blocks[:2] for parameter in block.parameters()]


@pytest.mark.parametrize(
    ("sabotage", "ratio", "dtypes"), [(keep_device_copies, 0.98, ("fp32",)), (keep_half_in_fp64, 0.98, ("fp64",))]
)
def test_copies_in_host_memory_are_found(sabotage: Sabotage, ratio: float, dtypes: tuple[str, ...]) -> None:
    """Of a state that is said to be elsewhere, for want of a device: all other tensors are the host's then."""
    elsewhere = torch.device("meta")
    baseline = measure("baseline", device=elsewhere)
    assert find_kept_copies([measure("ckpt", device=elsewhere)], [baseline]) == ()
    (copies,) = find_kept_copies([measure("ckpt", sabotage, elsewhere)], [baseline])
    assert (copies.category, copies.dtypes) == ("host", dtypes)
    assert copies.kept_bytes / copies.parameter_bytes == pytest.approx(ratio, abs=0.03)


def test_offloading_declares_what_it_keeps_on_the_host() -> None:
    state = applied("baseline", new_state(FOUR_BLOCKS)).state
    train(state, steps=1)
    blocks = sum(parameter.nbytes for block in state.blocks for parameter in block.parameters())
    moments = 2 * storage_bytes(state.model.parameters())
    kept = {what: Offload(what=what).count_kept_bytes(state) for what in ("activations", "parameters", "optimizer")}
    assert (kept["activations"], kept["parameters"]) == ({}, {"host": blocks})
    assert kept["optimizer"]["host"] == pytest.approx(moments, rel=1e-3)  # and the counts of steps
    assert Offload(what="optimizer", to="disk").count_kept_bytes(state) == {}


def test_a_declared_copy_is_no_hidden_one(baseline: RankRecord) -> None:
    ours = measure("bf16", keep_fp32_weights)
    parameters = ours.facts["reference_parameter_bytes"]
    assert find_kept_copies([ours], [record(facts={})]) == ()
    ours.facts["declared_bytes:other"] = 0.95 * parameters
    assert find_kept_copies([ours], [baseline]) == ()
    del ours.facts["declared_bytes:other"]  # without a limit
    assert find_kept_copies([ours], [baseline]) == ()


def test_buckets_hold_gradients() -> None:
    state = new_state()
    parameters = [*state.model.parameters()]
    bucket = torch.zeros(sum(parameter.numel() for parameter in parameters))
    address = frozenset({bucket.untyped_storage().data_ptr()})
    facts = [measure_live_bytes(state, gradients=known) for known in (frozenset[int](), address)]
    grown = {name: facts[1].get(name, 0.0) - facts[0].get(name, 0.0) for name in facts[0]}
    assert grown["live_bytes:gradient"] == bucket.nbytes == -grown["live_bytes:other"]
