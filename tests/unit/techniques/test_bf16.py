"""Everything in bf16; the optimizers of torch-optimi are told from torch's by their state."""

from dataclasses import replace

import pytest
import torch

from perfkit.errors import UnavailableError, UsageError
from perfkit.techniques.bf16 import Bf16
from perfkit.techniques.technique import cannot_act
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.tiny import WORKLOAD, applied, losses_of, new_state, relative_difference, train

optimi = pytest.importorskip("optimi")


def trained(variant: str, workload=WORKLOAD):
    state = applied(variant, new_state(workload)).state
    train(state, steps=2)
    return state


@pytest.mark.parametrize("variant", ["bf16", "bf16:update=nearest"])
def test_it_trains_alike_and_its_claims_tell_it_from_doing_nothing(variant: str) -> None:
    assert relative_difference(losses_of(variant), losses_of("baseline")) <= Bf16().parity().relative
    reference = reference_facts(new_state())
    state, idle = trained(variant), trained("baseline")
    before = measured_facts(idle, reference)
    technique = Bf16(update=variant.partition("=")[2] or "kahan")
    claims = technique.claims(state)
    results = check_claims(claims, state, measured_facts(state, reference), before)
    assert [text for holds, text in results if not holds] == []
    assert not any(holds for holds, _ in check_claims(claims, idle, before, before))


def test_an_update_that_rounding_would_lose_is_kept() -> None:
    parameter = torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
    small = 2.0**-10  # a quarter of the distance to the next number of bf16 below 1

    def updated(variant: str) -> float:
        parameter.data.fill_(1.0)
        workload = replace(WORKLOAD, build_optimizer=lambda _model: torch.optim.SGD([parameter], lr=small))
        state = applied(variant, new_state(workload)).state
        for _ in range(16):
            parameter.grad = torch.ones_like(parameter)
            state.update()
        return parameter[0].item()

    assert updated("bf16:update=nearest") == 1.0
    assert updated("bf16") == 1.0 - 16 * small


def test_hyperparameters_and_groups_are_the_workloads() -> None:
    def two_groups(model):
        weights = list(model.parameters())
        return torch.optim.AdamW(
            [{"params": weights[:3], "lr": 0.5}, {"params": weights[3:]}], betas=(0.8, 0.9), lr=0.1
        )

    state = applied("bf16", new_state(replace(WORKLOAD, build_optimizer=two_groups))).state
    (optimizer,) = state.optimizers.values()
    assert isinstance(optimizer, optimi.AdamW)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.1]
    assert {(group["beta1"], group["beta2"], group["weight_decay"]) for group in optimizer.param_groups} == {
        (0.8, 0.9, 0.01)
    }


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda model: torch.optim.Adagrad(model.parameters()), "the workload has Adagrad: use bf16:update=nearest"),
        (lambda model: torch.optim.AdamW(model.parameters(), amsgrad=True), "optimi's optimizers have no amsgrad"),
    ],
)
def test_what_optimi_does_not_have_is_refused(build, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        applied("bf16", new_state(replace(WORKLOAD, build_optimizer=build)))


def test_settings_of_each_group_are_taken_or_refused() -> None:
    def decoupled(model):
        return torch.optim.Adam(model.parameters(), decoupled_weight_decay=True)

    def nesterov(model):
        weights = list(model.parameters())
        return torch.optim.SGD([{"params": weights[:3], "nesterov": True}, {"params": weights[3:]}], momentum=0.9)

    state = applied("bf16", new_state(replace(WORKLOAD, build_optimizer=decoupled))).state
    assert [group["decouple_wd"] for group in state.optimizers[""].param_groups] == [True]
    with pytest.raises(UnavailableError, match="optimi's optimizers have no nesterov"):
        applied("bf16", new_state(replace(WORKLOAD, build_optimizer=nesterov)))


@pytest.mark.parametrize(
    ("variant", "build"),
    [
        ("bf16", torch.optim.AdamW),
        ("bf16:update=nearest", lambda weights: torch.optim.AdamW(weights, amsgrad=True)),
        ("bf16:update=nearest", torch.optim.RMSprop),
        ("bf16:update=nearest+optim:use=adafactor", torch.optim.AdamW),
    ],
)
def test_state_is_as_claimed_whatever_the_workloads_optimizer_is(variant: str, build) -> None:
    def frozen():  # but for its stem and head
        model = WORKLOAD.build_model()
        model.blocks.requires_grad_(False)
        return model

    workload = replace(WORKLOAD, build_model=frozen, build_optimizer=lambda model: build(model.parameters()))
    made, idle = applied(variant, new_state(workload)), trained("baseline", workload)
    train(made.state, steps=2)
    reference = reference_facts(new_state(workload))
    claims = [claim for technique in made.techniques for claim in technique.claims(made.state)]
    baseline = measured_facts(idle, reference)
    results = check_claims(claims, made.state, measured_facts(made.state, reference), baseline)
    assert [text for holds, text in results if not holds] == []


def test_complex_buffers_stay_complex() -> None:
    model = WORKLOAD.build_model()
    model.register_buffer("rotations", torch.tensor([1j]))
    state = applied("bf16", new_state(replace(WORKLOAD, build_model=lambda: model))).state
    assert state.model.rotations.tolist() == [1j]


def test_optim_has_no_place_beside_kahan_summation() -> None:
    with pytest.raises(UsageError, match="bf16 and optim:use=lion do not go together"):
        applied("bf16+optim:use=lion")


def test_amp_has_nothing_to_cast_beside_it() -> None:
    with pytest.raises(UsageError, match="amp and bf16 do not go together"):
        applied("amp+bf16")


def test_without_the_package_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfkit.techniques.technique.find_spec", lambda _module: None)
    cpu = torch.device("cpu")
    assert cannot_act(Bf16(), cpu) == "needs the package optimi: pip install torch-optimi"
    assert cannot_act(Bf16(update="nearest"), cpu) is None
