"""`gpt`: published parameter counts, and FLOPs against a hand calculation written out op by op."""

from collections import Counter

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from perfkit.core.errors import UsageError
from perfkit.workloads.gpt import ALIASES, SIZES, Gpt, GptModel, compute_flops_per_token
from perfkit.workloads.model_loss import compute_loss

TINY = Gpt(size="nano", batch_size=3, seq_len=24, vocab=40)


def meta_model(size: str) -> GptModel:
    shape = SIZES[size]
    with torch.device("meta"):
        return GptModel(shape, shape.positions)


@pytest.mark.parametrize(
    ("size", "published"),
    [("small", 124_439_808), ("medium", 354_823_168), ("large", 774_030_080), ("1.5b", 1_557_611_200)],
)
def test_parameters_are_those_of_gpt2(size: str, published: int) -> None:
    """The sums of the published checkpoints' tensors (gpt2, gpt2-medium, gpt2-large, gpt2-xl), tied head once."""
    assert sum(parameter.numel() for parameter in meta_model(size).parameters()) == published
    assert SIZES[size].parameters == published


def test_hand_calculation_op_by_op_equals_the_counter() -> None:
    """Every matrix product of one step, two FLOPs per multiply-add; a backward pass costs two products for each."""
    batch, time, width, layers, vocab = 3, 24, 256, 4, 40
    tokens = batch * time

    qkv = 2 * tokens * width * (3 * width)
    scores = 2 * tokens * time * width  # q k^T: over all heads, every query with every key, masked or not
    values = 2 * tokens * time * width  # softmax(..) v
    out = 2 * tokens * width * width
    mlp_up = 2 * tokens * width * (4 * width)
    mlp_down = 2 * tokens * (4 * width) * width
    head = 2 * tokens * width * vocab
    forward = layers * (qkv + scores + values + out + mlp_up + mlp_down) + head

    # Each product's two inputs both need a gradient: weights and activations; the first activation too, since the
    # embeddings are trained. The embeddings themselves are lookups and scatters, with no product.
    step = forward + 2 * forward

    workload = TINY.build()
    model = workload.build_model()
    with FlopCounterMode(display=False) as counter:
        compute_loss(workload, model, workload.make_batch(torch.Generator().manual_seed(0))).backward()

    assert counter.get_total_flops() == step


@pytest.mark.parametrize(("size", "seq_len"), [("nano", 256), ("small", 1024), ("1.5b", 512)])
def test_closed_form_is_palm_and_differs_by_biases_and_norms_only(size: str, seq_len: int) -> None:
    """6N + 12LHQT: N also holds parameters that multiply nothing in a matrix product; they are named here."""
    shape = SIZES[size]
    width, layers = shape.width, shape.layers
    matmul_weights = layers * (3 + 1 + 4 + 4) * width**2 + shape.vocab * width
    exact = 6 * matmul_weights + 12 * layers * width * seq_len

    biases = layers * (3 + 1 + 4 + 1) * width
    norms = layers * 2 * (2 * width) + 2 * width
    assert compute_flops_per_token(shape, seq_len) - exact == 6 * (biases + norms)
    assert shape.matmul_parameters == matmul_weights

    n_palm = shape.parameters - shape.positions * width  # a position lookup multiplies nothing either
    assert compute_flops_per_token(shape, seq_len) == 6 * n_palm + 12 * layers * width * seq_len
    assert compute_flops_per_token(shape, seq_len) == pytest.approx(exact, rel=0.005)


def test_optimizer_state_of_nano_halves_when_whole_tensors_are_dealt_out() -> None:
    sizes = Counter(parameter.numel() for parameter in meta_model("nano").parameters())
    assert all(count % 2 == 0 for count in sizes.values()), sizes


def test_sdpa_gives_the_same_loss_and_gradients() -> None:
    workload = TINY.build()
    assert workload.use_sdpa is not None
    torch.manual_seed(0)
    model = workload.build_model()
    batch = workload.make_batch(torch.Generator().manual_seed(0))
    explicit = compute_loss(workload, model, batch)
    explicit.backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    workload.use_sdpa(model)
    sdpa = compute_loss(workload, model, batch)
    sdpa.backward()
    assert sdpa.item() == pytest.approx(explicit.item(), rel=1e-5)
    for before, after in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(after.grad, before, rtol=1e-4, atol=1e-6)
    names = [type(node).__name__ for node in _graph(sdpa)]
    assert any("ScaledDotProduct" in name for name in names)
    assert not any("Softmax" in name and "LogSoftmax" not in name for name in names)


def test_attention_sees_no_later_token() -> None:
    workload = TINY.build()
    model = workload.build_model().eval()
    ids = torch.randint(40, (1, 24), generator=torch.Generator().manual_seed(0))
    changed = ids.clone()
    changed[0, 12] = (ids[0, 12] + 1) % 40
    difference = (model(ids) - model(changed)).abs().amax(dim=-1)[0]
    assert difference[:12].max() == 0
    assert difference[12:].min() > 0


def test_blocks_exist() -> None:
    workload = TINY.build()
    model = workload.build_model()
    names = workload.blocks(model)
    assert len(names) == 4
    assert {type(model.get_submodule(name)).__name__ for name in names} == {"Block"}


def test_sizes_batches_and_aliases() -> None:
    workload = Gpt(size="124m", batch_size=2, seq_len=32).build()
    assert workload.units_per_batch == 64
    assert "124.4M" in workload.description
    assert set(ALIASES.values()) <= set(SIZES)
    longer = Gpt(seq_len=512).resolve_shape()
    assert longer.positions == 512  # the table grows with the sequence, and never shrinks
    assert Gpt(seq_len=16).resolve_shape().positions == SIZES["nano"].positions


def test_unknown_size_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'smal'.*'small'"):
        Gpt(size="smal").build()


def _graph(loss: torch.Tensor) -> set[object]:
    seen: set[object] = set()
    waiting: list[object] = [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [parent for parent, _ in node.next_functions]  # type: ignore[attr-defined]
    return seen
