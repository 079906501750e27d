"""What acts on a network of convolutions: layouts, in-place activation functions, compressed activations."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.instruments.facts.saved_tensors import measure_saved_bytes
from perfkit.techniques.apply import AppliedTechniques
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import explain_refusal
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.tiny import WORKLOAD, applied, batches, new_state, relative_difference, train

SIZE = 16


def images(generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(4, 3, SIZE, SIZE, generator=generator), "y": torch.zeros(4, dtype=torch.long)}


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * SIZE * SIZE, 10)),
    )


CONVOLUTIONS = replace(
    WORKLOAD,
    name="convolutions",
    build_model=network,
    make_batch=images,
    loss=lambda model, batch: F.cross_entropy(model(batch["x"]), batch["y"]),
    blocks=lambda _model: (),
    use_sdpa=None,
)


def made(variant: str) -> AppliedTechniques:
    return applied(variant, new_state(CONVOLUTIONS))


@pytest.mark.parametrize("variant", ["channels_last", "inplace", "compress", "bf16:update=nearest"])
def test_it_trains_alike_and_its_claims_tell_it_from_doing_nothing(variant: str) -> None:
    reference = reference_facts(new_state(CONVOLUTIONS))
    baseline, changed = made("baseline"), made(variant)
    expected, losses = train(baseline.state), train(changed.state)
    assert relative_difference(losses, expected) <= changed.parity.relative
    (technique,) = changed.techniques
    before = measured_facts(baseline.state, reference)
    facts = measured_facts(changed.state, reference)
    results = check_claims(technique.claims(changed.state), changed.state, facts, before)
    assert [text for holds, text in results if not holds] == []
    idle = check_claims(technique.claims(changed.state)[:1], baseline.state, before, before)
    assert [holds for holds, _ in idle] == [False]
    changed.state.close()


@pytest.mark.parametrize(
    ("variant", "reason"),
    [("channels_last", r"\btiny has no .*\b2-d\b"), ("inplace", r"\btiny has no .*\binplace\b.*nn\.ReLU")],
    ids=["channels_last", "inplace"],
)
def test_what_has_nothing_to_act_on_says_so(variant: str, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        applied(variant)


def test_dropout_that_drops_nothing_is_not_switched() -> None:
    workload = replace(CONVOLUTIONS, build_model=lambda: nn.Sequential(network(), nn.Dropout(0.0)))
    state = applied("inplace", new_state(workload)).state
    assert not state.model[1].inplace
    assert state.model[0][2].inplace


def held_after_forward(state: TrainState) -> int:
    train(state, steps=1)
    (batch,) = batches(state, 0)
    held = measure_saved_bytes(lambda: state.loss(batch), state.device)
    state.close()
    assert held is not None
    return held


def test_compressed_activations_are_really_freed() -> None:
    # Of fp32 a quarter is left, of what is behind ReLU less; the means that batch norm saves are too small to change.
    assert held_after_forward(made("compress").state) < 0.27 * held_after_forward(made("baseline").state)


def test_the_first_loss_is_exact_since_only_backward_meets_what_was_rounded() -> None:
    assert train(made("compress").state, steps=1) == train(made("baseline").state, steps=1)


def test_what_is_lost_is_of_the_first_forward_pass_that_saves_anything() -> None:
    state = made("compress").state
    with state.forward_contexts[0](), torch.no_grad():
        state.model(batches(state, 0)[0]["x"])
    train(state, steps=1)
    assert "compression_error" not in state.facts
    train(state, steps=1)
    assert 0.001 < state.facts["compression_error"] < 0.02


def test_of_16_bits_a_half_is_left_which_its_claim_allows() -> None:
    def in_bf16() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(16 * SIZE**2, 10))

    workload = replace(
        CONVOLUTIONS,
        build_model=lambda: in_bf16().bfloat16(),
        loss=lambda model, batch: F.cross_entropy(model(batch["x"].bfloat16()), batch["y"]),
    )
    changed = applied("compress", new_state(workload))
    (saved, _) = changed.techniques[0].claims(changed.state)
    assert saved.value == 0.75
    assert (
        0.5
        < held_after_forward(changed.state) / held_after_forward(applied("baseline", new_state(workload)).state)
        < 0.6
    )


class Halves(nn.Module):
    """A gated linear unit, whose gate is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = x.chunk(2, dim=1)
        return value * self.gate(gate)


def test_a_view_that_may_not_be_written_over_is_a_refusal() -> None:
    workload = replace(CONVOLUTIONS, build_model=lambda: nn.Sequential(nn.Conv2d(3, 4, 1), Halves(), nn.Flatten()))
    changed = applied("inplace", new_state(workload))
    with pytest.raises(RuntimeError, match="modified inplace") as error:
        train(changed.state, steps=1)
    assert explain_refusal(error.value, changed.techniques).startswith("inplace ")
