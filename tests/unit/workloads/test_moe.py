"""`moe`: a layer against its experts called one by one, FLOPs against a hand calculation, and what is left behind."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils.flop_counter import FlopCounterMode

from perfkit.core.errors import UsageError
from perfkit.cost.live_flops import count_flops
from perfkit.workloads.experts import MixtureOfExperts, keep_auxiliary_losses
from perfkit.workloads.gpt import SIZES
from perfkit.workloads.model_loss import compute_loss
from perfkit.workloads.moe import AUXILIARY_WEIGHT, Moe, compute_flops_per_token, count_parameters, find_experts
from perfkit.workloads.routing import ROUTERS

BATCH, TIME, VOCAB = 3, 24, 40
WIDTH, LAYERS, EXPERTS = 256, 4, 4  # of nano


def built(router: str = "switch", **options):
    workload = Moe(router=router, batch_size=BATCH, seq_len=TIME, vocab=VOCAB, **options).build()
    torch.manual_seed(0)
    return workload, workload.build_model()


def batch_of(workload):
    return workload.make_batch(torch.Generator().manual_seed(0))


@pytest.mark.parametrize("router", list(ROUTERS))
def test_a_layer_is_the_weighted_sum_of_what_experts_make_of_their_tokens(router):
    _, model = built(router, capacity=0.5)
    layer = next(module for module in model.modules() if isinstance(module, MixtureOfExperts))
    experts = layer.experts
    x = torch.randn(BATCH, TIME, WIDTH, generator=torch.Generator().manual_seed(1))
    tokens = x.flatten(0, 1)
    routing = layer.router(tokens)
    expected = torch.zeros_like(tokens)
    for expert in range(EXPERTS):
        for token, weight in zip(routing.tokens[expert].tolist(), routing.weights[expert], strict=True):
            if token < len(tokens):
                hidden = F.gelu(tokens[token] @ experts.up[expert] + experts.up_bias[expert, 0], approximate="tanh")
                expected[token] += weight * (hidden @ experts.down[expert] + experts.down_bias[expert, 0])
    torch.testing.assert_close(layer(x), expected.view_as(x))
    dropped = expected.abs().sum(dim=1) == 0
    assert dropped.sum() == routing.dropped > 0


@pytest.mark.parametrize(("router", "capacity"), [("switch", 1.25), ("gshard", 2.0), ("expert_choice", 2.0)])
def test_hand_calculation_op_by_op_equals_the_counter(router, capacity):
    """As that of gpt, with every slot of the experts and the router in place of the MLP."""
    tokens = BATCH * TIME
    slots = -(-tokens * capacity // EXPERTS)
    attention = 2 * tokens * WIDTH * (3 * WIDTH) + 2 * (2 * tokens * TIME * WIDTH) + 2 * tokens * WIDTH * WIDTH
    gate = 2 * tokens * WIDTH * EXPERTS
    experts = EXPERTS * 2 * slots * WIDTH * (4 * WIDTH) * 2
    step = 3 * (LAYERS * (attention + gate + experts) + 2 * tokens * WIDTH * VOCAB)

    workload, model = built(router)
    batch = batch_of(workload)
    with FlopCounterMode(display=False) as counter:
        compute_loss(workload, model, batch).backward()
    assert counter.get_total_flops() == step
    counted = count_flops(lambda: compute_loss(workload, model, batch).backward())
    assert (counted.matrix, counted.uncounted) == (step, {})

    # The closed form also has what multiplies nothing: biases and norms, of which a token takes those of its slots.
    active = EXPERTS * slots / tokens
    biases = LAYERS * ((3 + 1) * WIDTH + active * 5 * WIDTH)
    norms = LAYERS * 2 * (2 * WIDTH) + 2 * WIDTH
    assert workload.model_flops_per_unit * tokens - step == pytest.approx(6 * tokens * (biases + norms))
    shape = Moe(batch_size=BATCH, seq_len=TIME, vocab=VOCAB).resolve_shape()
    assert workload.model_flops_per_unit == compute_flops_per_token(shape, TIME, EXPERTS, active)


def test_parameters_are_counted():
    workload, model = built(experts=3)
    assert sum(parameter.numel() for parameter in model.parameters()) == count_parameters(
        Moe(batch_size=BATCH, seq_len=TIME, vocab=VOCAB).resolve_shape(), 3
    )
    with torch.device("meta"):
        small = Moe(size="small", experts=8).build().build_model()
    assert sum(parameter.numel() for parameter in small.parameters()) == count_parameters(SIZES["small"], 8)
    assert find_experts(model) == tuple(f"blocks.{index}.mlp.experts" for index in range(LAYERS))
    assert workload.expert_parallel is find_experts


def test_the_loss_has_the_auxiliary_ones_and_leaves_none():
    workload, model = built()
    batch = batch_of(workload)
    with keep_auxiliary_losses(model) as layers:
        logits = model(batch["inputs"])
        uneven = sum(layer.auxiliary for layer in layers)
    plain = F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten())
    loss = compute_loss(workload, model, batch)
    assert loss.item() == pytest.approx((plain + AUXILIARY_WEIGHT * uneven).item())
    assert workload.linear_loss is not None
    linear = workload.linear_loss(model, batch, lambda x, weight, targets: F.cross_entropy(x @ weight.T, targets))
    assert linear.item() == pytest.approx(loss.item(), rel=1e-6)
    assert all(layer.auxiliary is None for layer in layers)


def test_a_step_is_the_same_twice():
    losses = []
    for _ in range(2):
        workload, model = built("gshard")
        optimizer = workload.build_optimizer(model)
        generator = torch.Generator().manual_seed(0)
        for _ in range(3):
            loss = compute_loss(workload, model, workload.make_batch(generator))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    assert losses[:3] == losses[3:]
    assert losses[2] < losses[0]


def test_two_choices_need_two_experts():
    with pytest.raises(UsageError, match=r"router=gshard.*experts=2"):
        Moe(router="gshard", experts=1).build()
