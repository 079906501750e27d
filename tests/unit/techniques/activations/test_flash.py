"""Attention that a backend refuses as the model calls it is found out before anything is timed."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.techniques.activations import flash
from perfkit.techniques.activations.attention_calls import (
    AttentionCall,
    AttentionExtent,
    make_flex_attention,
    make_windowed_attention,
    replace_attention,
)
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import explain_refusal
from perfkit.workloads.gpt import Gpt, GptModel, GptShape
from perfkit.workloads.workload import Workload, make_adamw
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.tiny import WORKLOAD, applied, batches, new_state, relative_difference, train


class Attends(nn.Module):
    def __init__(self, dropout: float, mask: str) -> None:
        super().__init__()
        self.dropout, self.fused = dropout, False
        self.norm = nn.BatchNorm1d(8)
        masks = {"": None, "plain": torch.zeros(4, 4), "learned": nn.Parameter(torch.zeros(4, 4))}
        self.mask = masks[mask]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x.transpose(1, 2)).transpose(1, 2).contiguous().unsqueeze(1)
        if not self.fused:
            return (x @ x.transpose(-2, -1)).softmax(-1) @ x
        return F.scaled_dot_product_attention(x, x, x, attn_mask=self.mask, dropout_p=self.dropout)


def workload(dropout: float, mask: str) -> Workload:
    return Workload(
        name="attends",
        unit="samples",
        units_per_batch=2,
        build_model=lambda: Attends(dropout, mask),
        build_optimizer=make_adamw,
        make_batch=lambda generator: {"x": torch.randn(2, 4, 8, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
        use_sdpa=lambda model: setattr(model, "fused", True),
    )


@pytest.mark.parametrize(
    ("dropout", "mask", "told"),
    [
        (0.1, "", "with dropout 0.1: "),
        (0.1, "plain", "with dropout 0.1 and a mask: "),
        (0.0, "learned", "with a mask: "),
    ],
)
def test_what_flash_refuses_on_a_cpu_is_skipped_with_that_reason(dropout: float, mask: str, told: str) -> None:
    with pytest.raises(UnavailableError, match=f"^the flash .* {told}"):
        applied("flash", new_state(workload(dropout, mask)))


def test_a_backend_without_a_kernel_for_the_compiled_step_is_told() -> None:
    error = RuntimeError("got RuntimeError('No available kernel.  Aborting execution.')")
    assert "backend=auto" in explain_refusal(error, [flash.Flash()])
    assert not explain_refusal(RuntimeError("no memory"), [flash.Flash()])


@pytest.mark.parametrize("variant", ["flash", "flash:backend=math", "flash:backend=auto"])
def test_what_runs_leaves_no_trace_of_having_been_tried(variant: str) -> None:
    state = new_state(workload(0.0, ""))
    random = torch.get_rng_state()
    made = applied(variant, state)
    assert torch.equal(torch.get_rng_state(), random)
    assert state.model.norm.num_batches_tracked == 0
    assert torch.equal(state.model.norm.running_mean, torch.zeros(8))
    made.state.close()


def test_dropout_runs_where_the_backend_knows_it() -> None:
    for variant in ("flash:backend=math", "flash:backend=auto"):
        applied(variant, new_state(workload(0.1, ""))).state.close()


LAYERS, HEADS, WIDTH, TIME, BATCH, WINDOW = 2, 2, 32, 16, 2, 5
SHAPE = GptShape(layers=LAYERS, heads=HEADS, width=WIDTH, positions=TIME, vocab=64, batch_size=BATCH)


def gpt() -> Workload:
    made = Gpt(batch_size=BATCH, seq_len=TIME, vocab=64).build()
    names = tuple(f"blocks.{number}" for number in range(LAYERS))
    return replace(made, build_model=lambda: GptModel(SHAPE, TIME), blocks=lambda _model: names)


def explicit_window(window: int) -> TrainState:
    """Explicit attention whose own mask is that of a sliding window."""
    state = applied("baseline", new_state(gpt())).state
    position = torch.arange(TIME)
    for block in state.model.blocks:
        block.attention.causal_mask |= position[:, None] - position >= window
    return state


@pytest.mark.parametrize("backend", ["flash", "math", "auto"])
def test_a_window_is_that_of_explicit_attention_with_a_banded_mask(backend: str) -> None:
    made = applied(f"flash:backend={backend}:window={WINDOW}", new_state(gpt()))
    assert relative_difference(train(made.state), train(explicit_window(WINDOW))) <= 1e-5
    assert made.parity.relative is None
    made.state.close()
    whole = train(applied("baseline", new_state(gpt())).state)
    assert relative_difference(train(explicit_window(WINDOW)), whole) > 1e-4


@pytest.mark.parametrize("compiled", [True, False])
def test_a_window_holds_in_compiled_and_in_recomputed_code(compiled: bool) -> None:
    made = applied(f"flash:window={WINDOW}" + ("" if compiled else "+ckpt"), new_state(gpt()))
    if compiled:
        made.state.model.compile(backend="eager", fullgraph=True)
    try:
        assert relative_difference(train(made.state), train(explicit_window(WINDOW))) <= 1e-5
    finally:
        made.state.close()
        torch.compiler.reset()


@pytest.mark.parametrize("window", [0, WINDOW])
def test_flex_attention_computes_what_explicit_attention_does(window: int) -> None:
    """Forward only: it has no backward pass on a CPU."""
    state = new_state(gpt())
    (batch,) = batches(state, 0)
    reference = explicit_window(window or TIME).model(batch["inputs"])
    state.workload.use_sdpa(state.model)
    with torch.no_grad(), replace_attention(make_flex_attention(window, compiled=False)):
        torch.testing.assert_close(state.model(batch["inputs"]), reference)


def test_flex_is_skipped_on_a_cpu() -> None:
    with pytest.raises(UnavailableError, match=r"^the flex .*\bCPU"):
        applied("flash:backend=flex", new_state(gpt()))


def test_what_a_window_reaches_and_leaves_out() -> None:
    made = applied(f"flash:window={WINDOW}", new_state(gpt()))
    assert made.state.facts["attention_reach"] == WINDOW
    # Scores and weighted values of each head, 2 FLOPs a product, once in forward and twice in backward.
    pairs = LAYERS * BATCH * HEADS * TIME * (TIME - WINDOW)
    assert made.state.left_out_flops == 3 * pairs * 2 * 2 * (WIDTH // HEADS)
    made.state.close()


@pytest.mark.parametrize("window", [TIME, TIME + 1])
def test_a_window_that_leaves_out_nothing_is_skipped(window: int) -> None:
    state = new_state(gpt())
    with pytest.raises(UnavailableError, match=f"a window of {window} .*gpt nano"):
        applied(f"flash:window={window}", state)
    state.close()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "that is not causal"),
        ({"is_causal": True, "dropout_p": 0.1}, "with dropout 0.1"),
        ({"attn_mask": torch.ones(4, 4, dtype=torch.bool)}, "with a mask"),
    ],
)
def test_attention_that_can_have_no_window_is_refused(options: dict, told: str) -> None:
    query = torch.zeros(1, 1, 4, 8)
    for attend in (make_windowed_attention(2), make_flex_attention(2, compiled=False)):
        with pytest.raises(UnavailableError, match=f" is {told}$"):
            attend(AttentionCall(query, query, query, **options), F.scaled_dot_product_attention)
    with pytest.raises(UnavailableError, match="queries as keys"):
        make_windowed_attention(2)(
            AttentionCall(query, query[:, :, :3], query[:, :, :3], is_causal=True), F.scaled_dot_product_attention
        )


def test_a_window_that_is_not_applied_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flash, "make_windowed_attention", lambda window: AttentionCall.run_with)
    made = applied(f"flash:window={WINDOW}", new_state(gpt()))
    (*_, reach) = made.techniques[0].claims(made.state)
    ((holds, told),) = check_claims([reach], made.state, made.state.facts, {})
    assert not holds
    assert "attention_reach 16.0 == 5.0" in told
    made.state.close()


def test_the_extent_of_attention_is_that_of_its_widest_call() -> None:
    extent = AttentionExtent(window=2)
    query = torch.randn(1, 1, 4, 8)
    with replace_attention(extent.measure_reach), torch.no_grad():
        for window in (1, 3):
            with replace_attention(
                make_windowed_attention(window)
            ):  # above: what it makes of a call is what the extent is of
                F.scaled_dot_product_attention(query, query, query, is_causal=True)
    assert extent.reach == 3


def test_flex_is_refused_before_training_where_the_model_has_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flash, "_probe_backend", lambda *_asked: None)  # as on a GPU
    with pytest.raises(UnavailableError, match=r"flex attention .*dropout"):
        applied("flash:backend=flex", new_state(workload(0.1, "")))


def test_a_workload_without_a_switch_is_told_which_field_it_lacks() -> None:
    with pytest.raises(UnavailableError, match=r"\buse_sdpa$"):
        applied("flash", new_state(replace(WORKLOAD, use_sdpa=None)))
