"""Every technique on one rank: it keeps the losses, its claims hold, and they fail where it does nothing."""

from dataclasses import replace
from itertools import chain

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from perfkit.core.spec import parse_variants
from perfkit.techniques.compose import compose_techniques
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts, saved_bytes
from tests.unit.techniques.tiny import FOUR_BLOCKS, WORKLOAD, applied, batches, new_state, relative_difference, train

pytestmark = pytest.mark.slow  # real steps

VARIANTS = [
    "amp",
    "amp:dtype=fp16",
    "ckpt",
    "ckpt:skip=1",
    "ckpt:mode=selective",
    "ckpt:mode=selective:save=addmm/bmm",
    "flash",
    "flash:backend=math",
    "offload:to=disk",
    "offload:what=optimizer:to=disk",
    "offload:what=parameters:to=disk",
    "amp:dtype=fp16+offload:what=optimizer:to=disk",
    "amp+flash+ckpt+offload:to=disk",
    *(
        pytest.param(each, marks=pytest.mark.nightly)
        for each in (
            "ckpt:every=sqrt",
            "ckpt:every=3",
            "ckpt:every=2:mode=selective",
            "flash:backend=auto",
            "ckpt+flash:backend=math",
            "ckpt:mode=selective+offload:what=parameters:to=disk",
            "flash+ckpt:mode=selective+offload:to=disk",
            "amp+ckpt",
        )
    ),
]


def built(variant):
    """With four blocks: some variants take each third block, or leave each second one out."""
    return applied(variant, new_state(FOUR_BLOCKS))


@pytest.fixture(scope="module")
def baseline_losses():
    return train(built("baseline").state, accumulation=2)


@pytest.fixture(scope="module")
def reference():
    return reference_facts(new_state(FOUR_BLOCKS))


@pytest.fixture(scope="module")
def baseline(reference):
    made = built("baseline")
    train(made.state, steps=1)
    return measured_facts(made.state, reference)


@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_are_the_baselines(variant, baseline_losses):
    made = built(variant)
    losses = train(made.state, accumulation=2)
    made.state.close()
    assert relative_difference(losses, baseline_losses) <= made.parity.relative


@pytest.mark.parametrize("variant", VARIANTS)
def test_claims_hold_where_it_acts_and_some_fail_where_it_does_not(variant, reference, baseline):
    made = built(variant)
    train(made.state, steps=1)
    facts = measured_facts(made.state, reference)
    claims = {technique.name: technique.claims(made.state) for technique in made.techniques}
    results = check_claims(chain(*claims.values()), made.state, facts, baseline)
    made.state.close()
    assert [text for verdict, text in results if not verdict] == []

    # The same claims against a state that was left as it is: every technique is found out.
    idle = built("baseline")
    train(idle.state, steps=1)
    idle_facts = measured_facts(idle.state, reference) | {
        name: 0.0 for name in facts if name.startswith(("bytes_", "saved_ops"))
    }
    for name, of_one in claims.items():
        assert not all(verdict for verdict, _ in check_claims(of_one, idle.state, idle_facts, baseline)), name


def live_bytes_after_forward(variant):
    """What a forward pass leaves allocated, by the allocator's own events."""
    made = built(variant)
    train(made.state, steps=1)
    (batch,) = batches(made.state, 0)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        loss = made.state.loss(batch)
    live = sum(event.self_cpu_memory_usage for event in profiler.key_averages())
    assert loss.requires_grad
    made.state.close()
    return live


def test_memory_that_autograd_holds_is_really_freed():
    plain = live_bytes_after_forward("baseline")
    assert plain >= 0.99 * saved_bytes(
        new_state(FOUR_BLOCKS)
    )  # all but the input, which is not made in the forward pass
    assert live_bytes_after_forward("ckpt") < 0.2 * plain
    assert live_bytes_after_forward("ckpt") < live_bytes_after_forward("ckpt:mode=selective") < 0.9 * plain
    assert live_bytes_after_forward("offload:to=disk") < 0.05 * plain
    assert live_bytes_after_forward("ckpt+offload:to=disk") < 0.05 * plain


def test_checkpointing_every_second_block_wraps_every_second_block():
    names = [type(block).__name__ for block in built("ckpt:skip=1").state.blocks]
    assert names == ["CheckpointWrapper", "TinyBlock"] * 2


def test_the_attention_choice_ends_with_the_state():
    before = torch.backends.cuda.flash_sdp_enabled()
    made = applied("flash:backend=math")
    assert not torch.backends.cuda.flash_sdp_enabled()
    made.state.close()
    assert torch.backends.cuda.flash_sdp_enabled() == before


def test_the_memory_budget_is_set_until_the_state_is_closed():
    state = new_state()
    (specs,) = parse_variants("ckpt:mode=budget:budget=0.25+compile")
    budget = next(technique for technique in compose_techniques(specs) if technique.name == "ckpt")
    budget.apply(state)
    assert torch._functorch.config.activation_memory_budget == 0.25
    state.close()
    assert torch._functorch.config.activation_memory_budget == 1.0


def test_fp16_leaves_out_a_step_that_overflows():
    made = applied("amp:dtype=fp16")
    parameter = next(made.state.model.parameters())
    before = parameter.detach().clone()
    train(made.state, steps=1, after_backward=lambda: parameter.grad.fill_(float("inf")))
    assert torch.equal(parameter, before)
    train(made.state, steps=1)
    assert not torch.equal(parameter, before)
    assert made.state.skipped_updates == [True, False]


def test_a_fused_optimizer_tells_of_a_step_that_it_left_out():
    workload = replace(WORKLOAD, build_optimizer=lambda model: torch.optim.AdamW(model.parameters(), fused=True))
    made = applied("amp:dtype=fp16", new_state(workload))
    parameter = next(made.state.model.parameters())
    train(made.state, steps=1, after_backward=lambda: parameter.grad.fill_(float("inf")))
    train(made.state, steps=1)
    assert [bool(flag) for flag in made.state.skipped_updates] == [True, False]
