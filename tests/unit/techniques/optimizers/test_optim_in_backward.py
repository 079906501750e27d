"""Updates in backward: the same losses without gradients, and what cannot be updated there is refused."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.techniques.base.state import World
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.optimizers.optim_in_backward import OptimInBackward
from perfkit.techniques.optimizers.optimizers import OPTIMIZERS
from perfkit.workloads.workload import Batch
from tests.fixtures.errors import has_id
from tests.fixtures.workloads import gan
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.optimizers.test_optim import COMPILED, variant
from tests.unit.techniques.tiny import WORKLOAD, applied, losses_of, new_state, train

pytestmark = pytest.mark.slow  # real steps

TOGETHER = {
    ":".join(filter(None, (name, conflict.when)))
    for name in TECHNIQUES.list_names()
    for conflict in TECHNIQUES.load(name).conflicts
    if conflict.other == "optim_in_backward"
}
ALONE = [use for use in OPTIMIZERS if f"optim:use={use}" not in TOGETHER and use not in COMPILED]


@pytest.fixture(scope="module")
def reference() -> dict[str, float]:
    return reference_facts(new_state())


@pytest.fixture(scope="module")
def baseline(reference: dict[str, float]) -> dict[str, float]:
    return measured_facts(applied("baseline").state, reference)


def test_the_gradients_of_the_whole_model_are_in_memory_without_it(baseline: dict[str, float]) -> None:
    assert baseline["gradient_bytes"] == 4 * sum(p.numel() for p in WORKLOAD.build_model().parameters())


BESIDE = [
    "ckpt",
    "ckpt:mode=selective",
    "amp",
    "compress",
    "offload:to=disk",
    "offload:what=optimizer:to=disk",
    "offload:what=parameters:to=disk",
    "bf16:update=nearest",
    "optim:use=foreach",
    "optim:use=forloop",
    "optim:use=fused",
]
EVERY_TIME = ("", "ckpt", "amp", "offload:what=optimizer:to=disk", "optim:use=fused", "adamw8bit", "lion")


@pytest.mark.parametrize(
    "beside",
    [each if each in EVERY_TIME else pytest.param(each, marks=pytest.mark.nightly) for each in ("", *BESIDE, *ALONE)],
)
def test_losses_are_the_same_and_all_claims_hold(
    beside: str, reference: dict[str, float], baseline: dict[str, float]
) -> None:
    plain = variant(beside) if beside in ALONE else beside or "baseline"
    given = f"{plain}+optim_in_backward".removeprefix("baseline+")
    assert losses_of(given) == losses_of(plain)
    made = applied(given)
    train(made.state, steps=2)
    facts = measured_facts(made.state, reference)
    for technique in made.techniques:
        results = check_claims(technique.claims(made.state), made.state, facts, baseline)
        assert [text for holds, text in results if not holds] == []
    made.state.close()


def claims_of(state, facts, baseline):
    return [holds for holds, _ in check_claims(OptimInBackward().claims(state), state, facts, baseline)]


@pytest.mark.parametrize("use", ["adamw", "sgd"])
def test_doing_nothing_and_dropping_gradients_are_found_out(
    use: str, reference: dict[str, float], baseline: dict[str, float]
) -> None:
    idle = applied(f"optim:use={use}").state
    train(idle, steps=1)
    assert claims_of(idle, measured_facts(idle, reference), baseline) == [False, False]
    dropping = applied(f"optim:use={use}").state
    train(dropping, steps=1)
    for parameter in dropping.model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda each: setattr(each, "grad", None))
    assert claims_of(dropping, measured_facts(dropping, reference), baseline) == [True, False]


def test_groups_keep_their_settings_and_follow_a_scheduler() -> None:
    def scheduled(model: nn.Module) -> torch.optim.Optimizer:
        first, *others = model.parameters()
        optimizer = torch.optim.SGD([{"params": [first], "lr": 0.0}, {"params": others}], lr=0.1)
        optimizer.scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
        return optimizer

    def trained(given: str) -> tuple[list[float], list[float]]:
        state = applied(given, new_state(replace(WORKLOAD, build_optimizer=scheduled))).state
        (optimizer,) = state.optimizers.values()
        state.after_updates = optimizer.scheduler.step
        return train(state), [group["lr"] for group in optimizer.param_groups]

    losses, rates = trained("optim_in_backward")
    assert (losses, rates) == trained("baseline")
    assert rates == [0.0, pytest.approx(1e-5)]


def test_tied_weights_are_updated_once() -> None:
    def tied() -> nn.Module:
        model = WORKLOAD.build_model()
        model.blocks[1].up.weight = model.blocks[0].up.weight
        return model

    workload = replace(WORKLOAD, build_model=tied)
    plain, in_backward = (
        train(applied(given, new_state(workload)).state) for given in ("baseline", "optim_in_backward")
    )
    assert in_backward == plain


def test_what_gets_no_gradient_is_not_waited_for(reference: dict[str, float], baseline: dict[str, float]) -> None:
    def unused_head(model: nn.Module, batch: Batch) -> torch.Tensor:
        model.stem.requires_grad_(False)
        return model.blocks[0](model.stem(batch["x"])).square().mean()

    state = applied("optim_in_backward", new_state(replace(WORKLOAD, loss=unused_head))).state
    train(state, steps=1)
    facts = measured_facts(state, reference_facts(new_state()))
    assert claims_of(state, facts, baseline) == [True, True]


def test_parameters_that_no_optimizer_has_keep_their_gradients(
    reference: dict[str, float], baseline: dict[str, float]
) -> None:
    def of_blocks(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.blocks.parameters(), lr=1e-5)

    workload = replace(WORKLOAD, build_optimizer=of_blocks)
    for given, expected in (("optim_in_backward", [True, True]), ("baseline", [False, False])):
        state = applied(given, new_state(workload)).state
        train(state, steps=1)
        state.model.zero_grad()
        assert claims_of(state, measured_facts(state, reference), baseline) == expected


def test_parameters_without_a_gradient_in_the_traced_step_are_not_missed(
    reference: dict[str, float], baseline: dict[str, float]
) -> None:
    """As experts that no token is sent to: they have state from steps before."""
    state = applied("optim_in_backward").state
    train(state, steps=1)
    facts = measured_facts(state, reference)
    state.model.blocks[0].requires_grad_(False)
    assert claims_of(state, facts, baseline) == [True, True]


@pytest.mark.parametrize(("given", "expected"), [("engine", False), ("engine+optim_in_backward", True)])
def test_updates_are_those_of_the_optimizer_that_an_engine_wraps(
    given: str, expected: bool, reference: dict[str, float], baseline: dict[str, float]
) -> None:
    pytest.importorskip("lightning")
    made = applied(given)
    train(made.state, steps=1)
    assert claims_of(made.state, measured_facts(made.state, reference), baseline) == [expected, expected]
    made.state.close()


def test_training_again_from_the_beginning_updates_once_a_step() -> None:
    """As the echo of a baseline's losses does: the optimizers are built anew over the same parameters."""
    state = applied("optim_in_backward").state
    beginning = {name: tensor.clone() for name, tensor in state.model.state_dict().items()}
    losses = train(state)
    state.model.load_state_dict(beginning)
    state.build_optimizers()
    assert train(state) == losses


def test_what_has_to_wait_for_all_gradients_is_refused() -> None:
    with pytest.raises(UnavailableError, check=has_id("skip.own_step")):
        applied("optim_in_backward", new_state(gan.build()))
    state = new_state()
    state.accumulation = 2
    with pytest.raises(UnavailableError, match="omit --accumulate"):
        applied("optim_in_backward", state)
    with pytest.raises(UnavailableError, match="zero2 or zero3", check=has_id("skip.late_gradients")):
        applied("optim_in_backward", new_state(world=World(size=2)))

    def hooked(model: nn.Module) -> torch.optim.Optimizer:
        optimizer = torch.optim.SGD(model.parameters())
        optimizer.register_step_pre_hook(lambda *_: nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        return optimizer

    with pytest.raises(UnavailableError, check=has_id("skip.optimizer_hooks")):
        applied("optim_in_backward", new_state(replace(WORKLOAD, build_optimizer=hooked)))


@pytest.mark.parametrize("other", sorted(TOGETHER | {"zero1"}))
def test_what_updates_all_together_is_refused(other: str) -> None:
    with pytest.raises(UsageError, match=rf"^{other.partition(':')[0]}.*\boptim_in_backward\b"):
        applied(f"{other}+optim_in_backward")


@pytest.mark.parametrize("use", sorted(use for use in OPTIMIZERS if f"optim:use={use}" in TOGETHER))
def test_what_is_refused_would_have_trained_otherwise(use: str) -> None:
    """Or the table would leave out what works."""
    given = variant(use)
    state = applied(given).state
    applied_by_hand = OptimInBackward().apply(state)
    applied_by_hand.build_optimizers()
    assert train(applied_by_hand) != losses_of(given)
