"""Operands are rounded to fp8; on a CPU by emulation, which is said."""

import pytest
import torch

from perfkit.core.errors import UnavailableError
from perfkit.techniques.precision.fp8 import Fp8
from perfkit.workloads.resnet import ResNet
from tests.fixtures.errors import has_id
from tests.fixtures.torch_features import import_torchao
from tests.unit.techniques.facts import StepTrace, check_claims
from tests.unit.techniques.tiny import BLOCKS, applied, losses_of, new_state, relative_difference, train

import_torchao()

LAYERS = 4 * BLOCKS


def test_its_claim_holds_and_tells_it_from_doing_nothing() -> None:
    state = applied("fp8").state
    claims = Fp8().claims(state)
    assert [text for holds, text in check_claims(claims, state, dict(state.facts), {}) if not holds] == []
    idle = applied("baseline").state
    assert not any(holds for holds, _ in check_claims(claims, idle, {"float8_layers": LAYERS}, {}))


def test_both_operands_of_three_products_a_layer_are_rounded() -> None:
    state = applied("fp8").state
    assert state.facts["float8_layers"] == LAYERS
    assert StepTrace(state).fact("op_calls", "_ToFloat8ConstrFunc") == 6 * LAYERS


def test_it_trains_alike_within_its_rounding_and_not_to_the_bit() -> None:
    difference = relative_difference(losses_of("fp8"), losses_of("baseline"))
    tolerance = Fp8().parity().relative
    assert tolerance is not None
    assert 1e-5 < difference <= tolerance


def test_a_product_is_that_of_operands_rounded_to_e4m3() -> None:
    """By hand: each operand scaled so that its largest is 448, e4m3's largest (arXiv 2209.05433, table 1)."""
    layer, plain = (applied(name).state.model.get_submodule("blocks.0.out") for name in ("fp8", "baseline"))
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(0))

    def rounded(value: torch.Tensor) -> torch.Tensor:
        scale = 448.0 / value.abs().max()
        return (value * scale).to(torch.float8_e4m3fn).float() / scale

    with torch.no_grad():
        expected = rounded(x) @ rounded(plain.weight).t() + plain.bias
        torch.testing.assert_close(layer(x), expected)


def test_weights_stay_in_fp32_and_are_trained() -> None:
    state = applied("fp8").state
    before = {name: parameter.detach().clone() for name, parameter in state.model.named_parameters()}
    train(state, steps=2)
    after = dict(state.model.named_parameters())
    assert before.keys() == after.keys() == dict(new_state().model.named_parameters()).keys()
    assert all(parameter.dtype == torch.float32 for parameter in after.values())
    assert not any(torch.equal(before[name], after[name]) for name in before if name.endswith("up.weight"))


def test_emulation_is_said() -> None:
    state = applied("fp8").state
    assert state.facts["emulated"] == 1.0
    assert state.fact_notes["emulated"].startswith("a cpu ")
    assert Fp8().emulated(torch.device("cuda")) == ""
    assert "emulated" not in applied("baseline").state.facts


@pytest.mark.parametrize(
    ("hip", "capability", "refused"),
    [
        (None, (8, 6), True),
        (None, (8, 9), False),
        (None, (9, 0), False),  # Hopper
        ("6.4", (9, 0), True),  # gfx90a of MI200, which torch tells as it tells Hopper
        ("6.4", (9, 4), False),  # gfx942
        ("7.0", (9, 5), False),
        ("6.4", (11, 0), True),
    ],
)
def test_a_gpu_without_units_for_fp8_is_refused(
    monkeypatch: pytest.MonkeyPatch, hip: str | None, capability: tuple[int, int], refused: bool
) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device=None: capability)
    reason = Fp8().unavailable(torch.device("cuda"))
    assert (reason is not None) == refused
    if reason is not None:
        assert ("AMD" if hip else "NVIDIA") in reason


def test_convolutions_are_refused() -> None:
    workload = ResNet(depth=18, batch_size=2, image_size=32).build()
    with pytest.raises(UnavailableError, match=r"\bresnet 18\b.*\bblocks$", check=has_id("skip.no_layers")):
        applied("fp8", new_state(workload))


def test_products_beside_bf16_are_claimed_by_fp8_alone() -> None:
    made = applied("bf16:update=nearest+fp8")
    claimed = {
        claim.technique: claim.fact for t in made.techniques for claim in t.claims(made.state) if "share" in claim.fact
    }
    assert claimed == {}
