"""Techniques on a CUDA device: what a CPU cannot show."""

import pytest
import torch

from perfkit.core.errors import UnavailableError
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.tiny import applied, new_state, relative_difference, train

pytestmark = pytest.mark.gpu

VARIANTS = [
    "amp",
    "amp:dtype=fp16",
    "ckpt",
    "ckpt:every=sqrt",
    "ckpt:mode=selective",
    "flash:backend=efficient",
    "flash:backend=math",
    "amp+flash",
    "amp+flash:backend=cudnn",
    "amp+flash:backend=efficient",
    "offload",
    "offload:to=disk",
    "offload:what=optimizer",
    "offload:what=optimizer:to=disk",
    "offload:what=parameters",
    "offload:what=parameters:to=disk",
    "amp:dtype=fp16+offload:what=optimizer",
    "amp+flash+ckpt+offload",
    "ckpt+offload:what=parameters",
]


@pytest.fixture(autouse=True)
def full_precision_products():
    """TF32 would hide behind a tolerance what a technique changes."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_and_claims(variant):
    plain = applied("baseline", new_state(device="cuda"))
    expected = train(plain.state, accumulation=2)
    state = new_state(device="cuda")
    reference = reference_facts(state)
    baseline = measured_facts(plain.state, reference)
    made = applied(variant, state)
    losses = train(made.state, accumulation=2)
    # the GPU adds in another order from run to run, a few roundings of fp32 more than the CPU
    assert relative_difference(losses, expected) <= max(made.parity.relative, 2e-5)
    facts = measured_facts(made.state, reference)
    claims = [claim for technique in made.techniques for claim in technique.claims(made.state)]
    assert [text for verdict, text in check_claims(claims, made.state, facts, baseline) if not verdict] == []
    made.state.close()


def test_flex_attention_trains_as_explicit_attention_does():
    expected = train(applied("baseline", new_state(device="cuda")).state)
    made = applied("flash:backend=flex", new_state(device="cuda"))
    assert relative_difference(train(made.state), expected) <= 2e-5
    made.state.close()


def test_flash_attention_refuses_fp32_with_the_reason():
    with pytest.raises(UnavailableError, match="flash runs in bf16 or fp16 on a GPU; use --technique amp"):
        applied("flash", new_state(device="cuda"))


@pytest.mark.parametrize("what", ["activations", "optimizer", "parameters"])
def test_offloaded_bytes_are_not_on_the_device(what):
    def allocated(variant: str) -> int:
        made = applied(variant, new_state(device="cuda"))
        train(made.state, steps=2)
        (batch,) = [{key: value.cuda() for key, value in made.state.workload.make_batch(torch.Generator()).items()}]
        loss = made.state.loss(batch)
        torch.cuda.synchronize()
        held = torch.cuda.memory_allocated()
        assert loss.requires_grad
        made.state.close()
        return held

    assert allocated(f"offload:what={what}") < allocated("baseline")


@pytest.mark.slow
def test_cuda_graphs_keep_the_losses():
    plain = train(applied("baseline", new_state(device="cuda")).state)
    made = applied("compile:mode=reduce-overhead", new_state(device="cuda"))
    assert relative_difference(train(made.state), plain) <= 2e-5
    made.state.close()
