"""Weights are rounded to integers in the forward pass, and updated in full precision."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.techniques.compression.qat import Qat
from perfkit.workloads.resnet import ResNet
from tests.fixtures.errors import has_id
from tests.fixtures.torch_features import import_torchao
from tests.unit.techniques.facts import StepTrace, check_claims
from tests.unit.techniques.tiny import BLOCKS, WORKLOAD, applied, batches, new_state, train

import_torchao()

LAYERS = 4 * BLOCKS


@pytest.mark.parametrize("variant", ["qat", "qat:weights=int8", "qat+lora", "amp+qat"])
def test_its_claim_holds_and_tells_it_from_doing_nothing(variant: str) -> None:
    if "lora" in variant:
        pytest.importorskip("peft")
    state = applied(variant).state
    claims = Qat().claims(state)
    results = check_claims(claims, state, dict(state.facts), {})
    assert [text for holds, text in results if not holds] == []
    idle = applied("baseline").state
    assert not any(holds for holds, _ in check_claims(claims, idle, {"fake_quantized_layers": LAYERS}, {}))


def test_every_layer_of_the_blocks_rounds_its_weight_and_its_input() -> None:
    state = applied("qat").state
    assert state.facts["fake_quantized_layers"] == LAYERS
    assert StepTrace(state).fact("op_calls", "torchao::choose_qparams_affine") == 2 * LAYERS


@pytest.mark.parametrize(("variant", "levels", "group"), [("qat", 16, 32), ("qat:weights=int8", 256, 64)])
def test_a_weight_takes_at_most_as_many_values_as_its_bits_have(variant: str, levels: int, group: int) -> None:
    layer = applied(variant).state.model.get_submodule("blocks.0.qkv")
    rounded = layer.weight_fake_quantizer(layer.weight).detach()
    assert all(len(part.unique()) <= levels for part in rounded.reshape(-1, group))
    step = (layer.weight.detach().reshape(-1, group).abs().amax(1) / (levels / 2 - 0.5)).repeat_interleave(group)
    assert ((rounded - layer.weight.detach()).flatten().abs() <= 0.51 * step).all()


def test_weights_are_trained_in_full_precision_by_the_workloads_optimizer() -> None:
    state = applied("qat").state
    weight = state.model.get_submodule("blocks.0.qkv").weight
    assert any(weight is each for group in state.optimizers[""].param_groups for each in group["params"])
    before = weight.detach().clone()
    losses = train(state, steps=6)
    assert weight.dtype == torch.float32
    assert not torch.equal(weight, before)
    assert losses[-1] < losses[0]
    (batch,) = batches(state, 0)
    assert state.loss(batch).item() != new_state().loss(batch).item()


def test_a_model_without_such_layers_is_skipped_with_the_reason() -> None:
    workload = ResNet(depth=18, batch_size=2, image_size=32).build()
    with pytest.raises(UnavailableError, match=r"\bresnet 18\b.*\bblocks$", check=has_id("skip.no_layers")):
        applied("qat", new_state(workload))
    narrow = replace(WORKLOAD, build_model=lambda: nn.Linear(16, 16), blocks=lambda _model: ())
    with pytest.raises(UnavailableError, match=r"\b32\b", check=has_id("skip.no_layers")):
        applied("qat", new_state(narrow))


def test_losses_are_not_comparable() -> None:
    assert Qat().parity().relative is None
