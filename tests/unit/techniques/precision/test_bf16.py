"""Everything in bf16; the optimizers of torch-optimi are told from torch's by their state."""

from dataclasses import replace

import pytest
import torch

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.techniques.activations.compress import Compress
from perfkit.techniques.base.technique import classify_inability, explain_inability, explain_refusal
from perfkit.techniques.precision.bf16 import Bf16
from tests.fixtures.torch_features import NEEDS_TORCHAO
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.tiny import WORKLOAD, applied, losses_of, new_state, relative_difference, train

optimi = pytest.importorskip("optimi")


def trained(variant: str, workload=WORKLOAD):
    state = applied(variant, new_state(workload)).state
    train(state, steps=2)
    return state


@pytest.mark.parametrize(
    "variant", ["bf16", "bf16:update=nearest", pytest.param("bf16:update=stochastic", marks=NEEDS_TORCHAO)]
)
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


@NEEDS_TORCHAO
def test_rounding_at_random_keeps_small_updates_in_the_mean() -> None:
    """Adam's step of a constant gradient is the learning rate: 16 of a quarter of the distance between numbers."""
    small, count = 2.0**-10, 10_000

    def updated(variant: str) -> torch.Tensor:
        parameter = torch.nn.Parameter(torch.ones(count, dtype=torch.bfloat16))
        adam = replace(WORKLOAD, build_optimizer=lambda _: torch.optim.Adam([parameter], lr=small))
        state = applied(variant, new_state(adam)).state
        for _ in range(16):
            parameter.grad = torch.ones_like(parameter)
            state.update()
        return parameter.detach().float()

    assert updated("bf16:update=nearest").unique().tolist() == [1.0]
    rounded = updated("bf16:update=stochastic")
    # Each of the 16 roundings has a standard deviation of sqrt(1/4 x 3/4) distances of 4 small.
    deviation = 4 * small * (3 / 16) ** 0.5 * 4 / count**0.5
    assert rounded.mean().item() == pytest.approx(1 - 16 * small, abs=5 * deviation)
    assert set(((1 - rounded) / (4 * small)).unique().tolist()) <= {float(number) for number in range(17)}


@NEEDS_TORCHAO
def test_rounding_to_nearest_in_its_place_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchao's AdamW without its rounding keeps the same bytes; that its updates draw nothing gives it away."""
    from torchao.optim import _AdamW

    monkeypatch.setattr("torchao.optim._AdamW", lambda groups, lr, **_rounding: _AdamW(groups, lr=lr))
    state = trained("bf16:update=stochastic")
    facts = measured_facts(state, reference_facts(new_state()))
    claims = Bf16(update="stochastic").claims(state)
    results = check_claims(claims, state, facts, {})
    failed = [claim.fact for claim, (holds, _) in zip(claims, results, strict=True) if not holds]
    assert failed == ["random_updates"]


def two_groups(model):
    weights = list(model.parameters())
    return torch.optim.AdamW([{"params": weights[:3], "lr": 0.5}, {"params": weights[3:]}], betas=(0.8, 0.9), lr=0.1)


def test_hyperparameters_and_groups_are_the_workloads() -> None:
    state = applied("bf16", new_state(replace(WORKLOAD, build_optimizer=two_groups))).state
    (optimizer,) = state.optimizers.values()
    assert isinstance(optimizer, optimi.AdamW)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.1]
    assert {(group["beta1"], group["beta2"], group["weight_decay"]) for group in optimizer.param_groups} == {
        (0.8, 0.9, 0.01)
    }


@NEEDS_TORCHAO
def test_hyperparameters_are_kept_by_the_optimizer_that_rounds_at_random() -> None:
    rounding = applied("bf16:update=stochastic", new_state(replace(WORKLOAD, build_optimizer=two_groups))).state
    (optimizer,) = rounding.optimizers.values()
    assert [float(group["lr"]) for group in optimizer.param_groups] == [0.5, pytest.approx(0.1)]
    assert {(*group["betas"], group["weight_decay"]) for group in optimizer.param_groups} == {(0.8, 0.9, 0.01)}


@pytest.mark.parametrize(
    ("update", "build", "reason"),
    [
        ("kahan", torch.optim.Adagrad, "Adagrad; use bf16:update=nearest"),
        ("kahan", lambda weights: torch.optim.AdamW(weights, amsgrad=True), "amsgrad"),
        pytest.param("stochastic", torch.optim.SGD, "SGD; use bf16:update=nearest", marks=NEEDS_TORCHAO),
        pytest.param(
            "stochastic",
            lambda weights: torch.optim.Adam(weights, weight_decay=0.1),
            r" AdamW .*\bAdam; use bf16:update=nearest",
            marks=NEEDS_TORCHAO,
        ),
        pytest.param(
            "stochastic",
            lambda weights: torch.optim.AdamW(weights, maximize=True),
            "maximize",
            marks=NEEDS_TORCHAO,
        ),
    ],
    ids=["adagrad", "amsgrad", "sgd", "adam_decay", "maximize"],
)
def test_what_a_library_does_not_have_is_refused(update: str, build, reason: str) -> None:
    workload = replace(WORKLOAD, build_optimizer=lambda model: build(model.parameters()))
    with pytest.raises(UnavailableError, match=reason):
        applied(f"bf16:update={update}", new_state(workload))


def test_settings_of_each_group_are_taken_or_refused() -> None:
    def decoupled(model):
        return torch.optim.Adam(model.parameters(), decoupled_weight_decay=True)

    def nesterov(model):
        weights = list(model.parameters())
        return torch.optim.SGD([{"params": weights[:3], "nesterov": True}, {"params": weights[3:]}], momentum=0.9)

    state = applied("bf16", new_state(replace(WORKLOAD, build_optimizer=decoupled))).state
    assert [group["decouple_wd"] for group in state.optimizers[""].param_groups] == [True]
    with pytest.raises(UnavailableError, match="nesterov"):
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


def test_compressed_activations_are_told_from_those_in_bf16() -> None:
    """bf16 alone halves what fp32 saves, which is all that `compress` asks of fp32."""
    reference, holds = reference_facts(new_state()), {}
    for variant in ("bf16:update=nearest", "bf16:update=nearest+compress"):
        state = applied(variant, new_state()).state
        train(state, steps=2)
        saved, _ = Compress().claims(state)
        ((holds[variant], _),) = check_claims([saved], state, measured_facts(state, reference), {})
    assert list(holds.values()) == [False, True]


def test_complex_buffers_stay_complex() -> None:
    model = WORKLOAD.build_model()
    model.register_buffer("rotations", torch.tensor([1j]))
    state = applied("bf16", new_state(replace(WORKLOAD, build_model=lambda: model))).state
    assert state.model.rotations.tolist() == [1j]


def test_optim_has_no_place_beside_kahan_summation() -> None:
    with pytest.raises(UsageError, match=r"^bf16 .*\blion\b"):
        applied("bf16+optim:use=lion")


def test_amp_has_nothing_to_cast_beside_it() -> None:
    with pytest.raises(UsageError, match="amp and bf16 "):
        applied("amp+bf16")


def test_without_the_package_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfkit.techniques.base.package.find_spec", lambda _module: None)
    cpu = torch.device("cpu")
    assert (explain_inability(Bf16(), cpu) or "").endswith(" torch-optimi")
    assert classify_inability(Bf16()) == "skip.package"
    assert explain_inability(Bf16(update="nearest"), cpu) is None


def test_a_loss_of_two_dtypes_that_torch_does_not_differentiate_is_refused() -> None:
    error = RuntimeError("Found dtype Float but expected BFloat16")  # of torch 2.11, from the backward pass
    assert "fp32" in explain_refusal(error, [Bf16()])
    assert explain_refusal(RuntimeError("another"), [Bf16()]) == ""
