"""Fused cross-entropy gives the same losses and gradients, and really keeps no logits."""

from dataclasses import replace
from itertools import chain

import pytest
import torch

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.cost.live_flops import count_flops
from perfkit.instruments.facts.saved_tensors import measure_saved_bytes
from perfkit.techniques.base.technique import explain_inability
from perfkit.workloads import gpt
from perfkit.workloads.workload import Workload
from tests.fixtures.errors import has_id
from tests.fixtures.torch_features import NEEDS_LINEAR_CROSS_ENTROPY
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.test_compose import composed
from tests.unit.techniques.tiny import applied, batches, new_state, relative_difference, train

TOKENS, WIDTH, VOCAB = 2 * 32, 16, 128
CPU = torch.device("cpu")


@pytest.fixture
def workload(monkeypatch: pytest.MonkeyPatch) -> Workload:
    shape = gpt.GptShape(layers=1, heads=2, width=WIDTH, positions=32, vocab=VOCAB, batch_size=2)
    monkeypatch.setitem(gpt.SIZES, "nano", shape)
    return gpt.Gpt().build()


@NEEDS_LINEAR_CROSS_ENTROPY
@pytest.mark.parametrize("variant", ["fused_ce", "fused_ce:chunk=16", "fused_ce+ckpt"])
def test_losses_and_gradients_are_the_baselines(variant: str, workload: Workload) -> None:
    plain, fused = applied("baseline", new_state(workload)).state, applied(variant, new_state(workload)).state
    for state in (plain, fused):
        state.backward(state.loss(batches(state, 0)[0]))
    for expected, found in zip(plain.model.parameters(), fused.model.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-7)
        found.grad = expected.grad = None
    assert relative_difference(train(fused), train(plain)) <= 1e-5


@NEEDS_LINEAR_CROSS_ENTROPY
@pytest.mark.parametrize("variant", ["fused_ce", "fused_ce+ckpt", "amp+fused_ce"])
def test_claims_hold_where_it_acts_and_fail_where_it_does_not(variant: str, workload: Workload) -> None:
    reference = reference_facts(new_state(workload))
    made, idle = applied(variant, new_state(workload)), applied("baseline", new_state(workload))
    baseline = measured_facts(idle.state, reference)
    claims = [technique.claims(made.state) for technique in made.techniques]
    results = check_claims(chain(*claims), made.state, measured_facts(made.state, reference), baseline)
    assert [text for verdict, text in results if not verdict] == []
    (of_it,) = (each for each in claims if each[0].technique == "fused_ce")
    found = [verdict for verdict, _ in check_claims(of_it, idle.state, baseline, baseline)]
    assert found[:2] == [False, False]


@NEEDS_LINEAR_CROSS_ENTROPY
def test_the_weights_gradient_takes_the_place_of_the_logits(workload: Workload) -> None:
    saved = []
    for variant in ("baseline", "fused_ce"):
        state = applied(variant, new_state(workload)).state
        (batch,) = batches(state, 0)
        saved.append(measure_saved_bytes(lambda state=state, batch=batch: state.loss(batch), CPU))
    # Saved by the loss itself, too: the sum of the classes' weights, one number.
    assert saved[0] - saved[1] == 4 * VOCAB * (TOKENS - WIDTH) + 4


@NEEDS_LINEAR_CROSS_ENTROPY
def test_its_products_are_counted_as_the_output_layers(workload: Workload) -> None:
    def counted(variant: str) -> float:
        state = applied(variant, new_state(workload)).state
        (batch,) = batches(state, 0)
        return count_flops(lambda: state.backward(state.loss(batch))).matrix

    assert counted("fused_ce") == counted("baseline")


@NEEDS_LINEAR_CROSS_ENTROPY
def test_where_it_cannot_act_it_says_why(workload: Workload) -> None:
    with pytest.raises(UnavailableError, match=r"tiny .*linear_loss"):
        applied("fused_ce")
    with pytest.raises(UnavailableError, match=r"per class, 16 .* 16 logits"):
        applied("fused_ce", new_state(gpt.Gpt(batch_size=1, seq_len=16).build()))
    (liger,) = composed("fused_ce:backend=liger")
    assert "GPUs only" in (liger.unavailable(CPU) or "")
    assert liger.unavailable(torch.device("cuda")) is None
    assert explain_inability(liger, CPU)
    with pytest.raises(UsageError, match=r"chunk .*backend=torch"):
        composed("fused_ce:backend=liger:chunk=8")


@NEEDS_LINEAR_CROSS_ENTROPY
@pytest.mark.parametrize(
    ("variant", "step_dtype", "autocast"),
    [("amp+fused_ce", "bf16", True), ("fused_ce", "fp32", False), ("fused_ce", "bf16", True)],  # at last zero3 casts
)
def test_it_is_tried_as_a_run_would_and_leaves_no_trace(
    workload: Workload, variant: str, step_dtype: str, autocast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, features: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            seen.append(torch.is_autocast_enabled("cpu"))
            return features

    seen: list[bool] = []
    state = new_state(workload)
    state.model.counting = Counting()
    linear_loss = workload.linear_loss
    assert linear_loss is not None

    def counted(model, batch, loss):
        model.counting(torch.zeros(()))
        return linear_loss(model, batch, loss)

    state.workload = replace(workload, linear_loss=counted)
    monkeypatch.setattr("perfkit.techniques.apply.find_step_dtype", lambda *_: step_dtype)
    applied(variant, state)
    assert seen == [autocast]
    assert state.model.counting.calls == 0


@NEEDS_LINEAR_CROSS_ENTROPY
def test_a_step_of_its_own_is_refused(workload: Workload) -> None:
    own = replace(workload, loss=None, step=lambda training, batch: torch.zeros(()))
    with pytest.raises(UnavailableError, check=has_id("skip.own_step")):
        applied("fused_ce", new_state(own))


def test_the_op_needs_a_torch_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.nn, "LinearCrossEntropyOptions", raising=False)
    (technique,) = composed("fused_ce")
    assert "torch 2.13" in (technique.unavailable(CPU) or "")
