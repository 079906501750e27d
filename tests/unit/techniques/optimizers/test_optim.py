"""`optim`: the state each optimizer keeps against its paper's figure, its claims, and what is kept of the groups."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import msgspec
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.techniques.base.technique import explain_inability
from perfkit.techniques.optimizers.optim import _IMPLEMENTATIONS, Optim
from perfkit.techniques.optimizers.optimizer_state import compute_state_bytes, count_adam_bytes
from perfkit.techniques.optimizers.optimizers import OPTIMIZERS
from perfkit.techniques.optimizers.sm3 import SM3
from perfkit.workloads.workload import Batch
from tests.fixtures.errors import has_id
from tests.unit.techniques import tiny
from tests.unit.techniques.facts import check_claims, fused_facts, measured_facts, reference_facts
from tests.unit.techniques.tiny import WORKLOAD, applied, losses_of, new_state, train

M, N = 128, 256  # of the matrix whose state is counted by hand
STATE_BYTES = {  # of M x N weights in fp32
    "sgd": 0,
    "momentum": 4 * M * N,
    "adamw": 8 * M * N + 4,
    "adafactor": 4 * (M + N) + 4,
    "adamw8bit": 2 * (M * N + 4 * M * N // 256),
    "paged_adamw8bit": 2 * (M * N + 4 * M * N // 256),  # too small to be paged
    "lion8bit": M * N + 4 * M * N // 256,
    "lars": 4 * M * N,
    "lamb": 8 * M * N,
    "lion": 4 * M * N,
    "came": 4 * M * N + 8 * (M + N),
    "adam_mini": 4 * M * N,
    "galore": 4 * (32 * M + 2 * 32 * N),
    "soap": 4 * (2 * M * N + 2 * M * M + 2 * N * N),
    "muon": 4 * M * N,
    "sm3": 4 * (M + N),
}
CPU = torch.device("cpu")
COMPILED = ("torchao_adamw8bit", "torchao_adamw4bit", "torchao_adamwfp8")


def variant(use: str) -> str:
    """The variant, where its package is installed."""
    reason = explain_inability(Optim(use=use), CPU)
    if reason is not None:
        pytest.skip(reason)
    return f"optim:use={use}"


def test_every_optimizer_can_be_named_and_is_counted_here() -> None:
    (field,) = (field for field in msgspec.structs.fields(Optim) if field.name == "use")
    assert get_args(field.type) == (*_IMPLEMENTATIONS, *OPTIMIZERS)
    assert {*STATE_BYTES, *COMPILED} == {*OPTIMIZERS}


@pytest.mark.parametrize("use", STATE_BYTES)
def test_the_state_of_a_matrix_is_what_the_paper_states(use: str) -> None:
    """Counted by hand, claimed, and measured of the library's own; 1 % and 1 KiB for its tables of codes."""
    matrix = replace(
        WORKLOAD,
        build_model=lambda: nn.Linear(N, M, bias=False),
        loss=lambda model, batch: model(torch.ones(2, N)).square().mean(),
        blocks=lambda model: (),
    )
    made = applied(variant(use), new_state(matrix))
    train(made.state, steps=2)
    (claim,) = (claim for claim in made.techniques[0].claims(made.state) if claim.fact == "optimizer_state_bytes")
    facts = measured_facts(made.state, {})
    assert claim.value == pytest.approx(STATE_BYTES[use], abs=8)
    assert facts["optimizer_state_bytes"] == pytest.approx(STATE_BYTES[use], rel=0.01, abs=2048 + 64)


@pytest.fixture(scope="module")
def reference() -> dict[str, float]:
    return reference_facts(new_state())


@pytest.fixture(scope="module")
def baseline(reference: dict[str, float]) -> dict[str, float]:
    made = applied("baseline")
    train(made.state, steps=1)
    return measured_facts(made.state, reference)


@pytest.mark.parametrize("use", ["fused", "foreach", *STATE_BYTES])
def test_claims_hold_where_it_acts(use: str, reference: dict[str, float], baseline: dict[str, float]) -> None:
    made = applied(variant(use))
    losses = train(made.state, steps=2)
    assert all(math.isfinite(loss) for loss in losses)
    claims = made.techniques[0].claims(made.state)
    results = check_claims(claims, made.state, measured_facts(made.state, reference), baseline)
    assert [text for verdict, text in results if not verdict] == []


def test_an_optimizer_that_was_not_changed_is_found_out(baseline: dict[str, float]) -> None:
    """Against a step of the workload's own AdamW, of every other something that it claims fails."""
    installed = [use for use in ("fused", "foreach", *STATE_BYTES) if explain_inability(Optim(use=use), CPU) is None]
    claims = [(use, claim) for use in installed for claim in Optim(use=use).claims(applied(f"optim:use={use}").state)]
    idle = applied("baseline")
    train(idle.state, steps=1)
    results = check_claims([claim for _, claim in claims], idle.state, baseline, baseline)
    failing = {use for (use, _), (holds, _) in zip(claims, results, strict=True) if not holds}
    assert failing == {*installed} - {"adamw"}


@pytest.mark.parametrize("use", _IMPLEMENTATIONS)
def test_another_implementation_gives_the_same_losses(use: str) -> None:
    assert losses_of(f"optim:use={use}") == pytest.approx(losses_of("baseline"), rel=1e-6)
    assert applied(f"optim:use={use}").parity.relative == 1e-5


class WithRmsNorm(tiny.TinyModel):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(self.stem, nn.RMSNorm(tiny.WIDTH))


@pytest.mark.parametrize("use", ["fused", "foreach", "forloop"])
def test_the_implementation_is_told_beside_norms_and_clipping(use: str) -> None:
    """RMSNorm calls `aten::_fused_rms_norm`, clipping `aten::_foreach_norm` and `aten::_foreach_mul_`."""

    def clipped_step(optimizer: torch.optim.Optimizer, closure: object) -> None:
        nn.utils.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], 1.0)
        optimizer.step()

    others = {"fused": "forloop", "foreach": "forloop", "forloop": "foreach"}
    for given, expected in ((use, True), (others[use], False)):
        state = applied(f"optim:use={given}", new_state(replace(WORKLOAD, build_model=WithRmsNorm))).state
        state.optimizer_step = clipped_step
        results = check_claims(Optim(use=use).claims(state), state, fused_facts(state), {})
        assert all(holds for holds, _ in results) is expected, results


def test_implementations_are_chosen_of_every_optimizer_that_has_them() -> None:
    class Own(torch.optim.AdamW):
        """Its constructor takes a model."""

        def __init__(self, model: nn.Module, lr: float) -> None:
            super().__init__(model.parameters(), lr=lr)

    for build in (lambda model: Own(model, 1e-3), lambda model: torch.optim.RMSprop(model.parameters())):
        state = applied("optim:use=foreach", new_state(replace(WORKLOAD, build_optimizer=build))).state
        results = check_claims(Optim(use="foreach").claims(state), state, fused_facts(state), {})
        assert all(holds for holds, _ in results)


def test_a_fused_optimizer_is_no_longer_scaled_as_one() -> None:
    """A gradient scaler hands its scale to fused optimizers, which loops do not take."""
    fused = replace(WORKLOAD, build_optimizer=lambda model: torch.optim.AdamW(model.parameters(), fused=True))
    state = applied("amp:dtype=fp16+optim:use=forloop", new_state(fused)).state
    assert all(math.isfinite(loss) for loss in train(state, steps=2))


def with_scheduler(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters())
    torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    return optimizer


def test_a_scheduler_keeps_its_optimizer() -> None:
    scheduled = replace(WORKLOAD, build_optimizer=with_scheduler)
    own = [with_scheduler(WORKLOAD.build_model())]
    state = applied("optim:use=fused", new_state(replace(WORKLOAD, build_optimizer=lambda _model: own[0]))).state
    assert [*state.optimizers.values()] == own
    with pytest.raises(UnavailableError, match=r"\bAdamW\b.*\bSGD\b"):
        applied("optim:use=momentum", new_state(scheduled))


def test_state_is_counted_of_what_is_updated() -> None:
    """An unused head gets no gradient, a frozen stem neither."""

    def unused_head(model: nn.Module, batch: Batch) -> torch.Tensor:
        model.stem.requires_grad_(False)
        return model.blocks[0](model.stem(batch["x"])).square().mean()

    made = applied("optim:use=adamw", new_state(replace(WORKLOAD, loss=unused_head)))
    train(made.state, steps=1)
    updated = [*made.state.model.blocks[0].parameters()]
    (claim,) = (claim for claim in made.techniques[0].claims(made.state) if claim.fact == "optimizer_state_bytes")
    assert claim.value == sum(8 * p.numel() + 4 for p in updated)


def test_state_of_sharded_parameters_is_counted_by_shards(two_ranks: None) -> None:
    """Of 8 x 4 weights a rank holds 4 x 4: two moments and a count of updates."""
    model = fully_shard(nn.Linear(4, 8, bias=False))
    assert compute_state_bytes([torch.optim.AdamW(model.parameters())], count_adam_bytes) == 2 * 4 * 4 * 4 + 4


@pytest.fixture
def two_ranks() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


def test_adam_mini_has_no_name_for_a_parameter_outside_the_model() -> None:
    def with_another(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW([*model.parameters(), nn.Parameter(torch.ones(1))])

    with pytest.raises(UnavailableError, match=r"^adam_mini "):
        applied(variant("adam_mini"), new_state(replace(WORKLOAD, build_optimizer=with_another)))


def test_another_optimizer_is_not_comparable() -> None:
    parity = applied("optim:use=momentum").parity
    assert parity.relative is None
    assert "optimizer" in parity.basis


def two_groups(model: nn.Module) -> torch.optim.Optimizer:
    parameters = list(model.parameters())
    plain = {"params": parameters[:3], "weight_decay": 0.0}
    return torch.optim.AdamW([plain, {"params": parameters[3:], "lr": 4e-3}], lr=1e-3, weight_decay=0.2)


def settings(given: str) -> list[tuple[int, float, float]]:
    made = applied(given, new_state(replace(WORKLOAD, build_optimizer=two_groups)))
    (optimizer,) = made.state.optimizers.values()
    groups = optimizer.param_groups
    return [(len(group["params"]), group["lr"], group.get("weight_decay", 0.0)) for group in groups]


def test_learning_rate_and_weight_decay_are_kept_where_they_mean_the_same() -> None:
    others = len(list(WORKLOAD.build_model().parameters())) - 3
    assert settings("optim:use=fused") == [(3, 1e-3, 0.0), (others, 4e-3, 0.2)]
    assert settings(variant("lion")) == [(3, pytest.approx(1e-4), 0.0), (others, pytest.approx(4e-4), 2.0)]
    assert settings(variant("soap")) == [(3, 1e-3, 0.0), (others, 4e-3, 0.2)]
    assert settings("optim:use=momentum") == [(3, 1e-3, 0.0), (others, 1e-3, 0.0)]  # torch's defaults
    assert settings("optim:use=momentum:lr=0.5") == [(3, 0.5, 0.0), (others, 0.5, 0.0)]


def test_what_the_shards_are_of_is_the_new_optimizer() -> None:
    """What was applied before `optim` wraps the optimizer that it makes."""
    state = new_state()
    seen = []
    state.optimizer_changes.append(lambda optimizer: seen.append(type(optimizer)) or optimizer)
    applied("optim:use=momentum", state)
    assert seen == [torch.optim.SGD]


def test_what_has_nothing_to_do_is_refused() -> None:
    vectors = replace(
        WORKLOAD, build_model=lambda: nn.LayerNorm(16), blocks=lambda model: (), loss=lambda m, b: m(b["x"]).mean()
    )
    for use, reason in (("galore", "more than 32 rows"), ("muon", "and there are none")):
        with pytest.raises(UnavailableError, match=reason):
            applied(variant(use), new_state(vectors))
    with pytest.raises(UnavailableError, match=r"^LBFGS .*\bfused\b"):
        applied("optim", new_state(replace(WORKLOAD, build_optimizer=lambda m: torch.optim.LBFGS(m.parameters()))))
    with pytest.raises(UsageError, match=r"\btorchao_adamw4bit\b.*'adagrad'"):
        applied("optim:use=adagrad")


def test_sm3_follows_its_paper() -> None:
    """Algorithm SM3-II by hand: nu = min(row, column) + g^2, w -= lr g / sqrt(nu), covers take the largest nu."""
    weight = nn.Parameter(torch.zeros(2, 2))
    optimizer = SM3([weight], lr=1.0)
    weight.grad = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    optimizer.step()
    assert weight.tolist() == [[-1.0, -1.0], [0.0, -1.0]]
    state = optimizer.state[weight]
    assert (state["accumulator_0"].tolist(), state["accumulator_1"].tolist()) == ([[16.0], [1.0]], [[9.0, 16.0]])
    weight.grad = torch.tensor([[0.0, 3.0], [4.0, 0.0]])
    optimizer.step()  # nu of (0, 1) is min(16, 16) + 9 = 25, of (1, 0) min(1, 9) + 16 = 17
    assert weight.tolist()[0] == [-1.0, pytest.approx(-1.6)]
    assert weight.tolist()[1] == [pytest.approx(-4 / 17**0.5), -1.0]


@pytest.mark.parametrize(
    ("use", "own"),
    [("momentum", {"momentum": 0.9}), ("momentum:lr=0.5", {"momentum": 0.9, "weight_decay": 1e-4}), ("sgd", {})],
)
def test_the_workloads_own_optimizer_is_no_other(use: str, own: dict[str, float]) -> None:
    workload = replace(WORKLOAD, build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1, **own))
    with pytest.raises(UnavailableError, match=r"\bSGD\b", check=has_id("skip.same_optimizer")):
        applied(f"optim:use={use}", new_state(workload))
    for other in {"sgd", "momentum"} - {use.partition(":")[0]}:
        applied(f"optim:use={other}", new_state(workload))


def test_sm3_learns_without_a_warm_up() -> None:
    """At its library's 0.1 the first update is larger than most weights are."""
    losses = train(applied("optim:use=sm3").state, steps=10)
    assert losses[-1] < losses[0]
    assert max(losses) < 1.5 * losses[0]
