"""Steps of a workload's own, with several models, optimizers and backward passes, and techniques acting on them."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partialmethod

import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.techniques.base.own_step import run_step, run_trial_step
from perfkit.techniques.base.technique import explain_refusal
from perfkit.workloads.workload import Workload, make_model
from tests.fixtures.workloads import gan
from tests.unit.techniques.facts import ProductDtypes
from tests.unit.techniques.tiny import WORKLOAD, applied, batches, new_state, relative_difference, use_sdpa

STEPS = 4


def by_hand() -> list[float]:
    """The losses of the GAN in a plain loop of torch."""
    state = new_state(gan.build())
    generator, discriminator = state.model.generator, state.model.discriminator
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    losses = []
    for index in range(STEPS):
        (batch,) = batches(state, index)
        discriminator.zero_grad()
        on_real = gan.error(discriminator(batch["real"]), 1.0)
        on_real.backward()
        fake = generator(batch["noise"])
        on_fake = gan.error(discriminator(fake.detach()), 0.0)
        on_fake.backward()
        optimizer_d.step()
        generator.zero_grad()
        fooled = gan.error(discriminator(fake), 1.0)
        fooled.backward()
        optimizer_g.step()
        losses.append((on_real + on_fake + fooled).item())
    return losses


def losses_of(variant: str, workload: Workload, steps: int = STEPS) -> list[float]:
    made = applied(variant, new_state(workload))
    try:
        return [run_step(made.state, batches(made.state, index)[0]).item() for index in range(steps)]
    finally:
        made.state.close()


def test_the_step_is_the_plain_loops_to_the_bit() -> None:
    assert losses_of("baseline", gan.build()) == pytest.approx(by_hand(), rel=1e-7)


@pytest.mark.parametrize(
    "variant",
    [
        "ckpt",
        "ckpt:mode=selective",
        "amp",
        "amp:dtype=fp16",
        "offload:to=disk",
        "offload:what=optimizer:to=disk",
        "offload:what=parameters:to=disk",
        "amp+ckpt",
    ],
)
def test_techniques_keep_its_losses(variant: str) -> None:
    made = applied(variant, new_state(gan.build()))
    made.state.close()
    assert relative_difference(losses_of(variant, gan.build()), by_hand()) <= made.parity.relative


def test_autocast_is_around_the_forward_passes_and_no_stale_casts_outlive_an_update() -> None:
    made = applied("amp", new_state(gan.build()))
    seen = []
    made.state.model.discriminator.register_forward_hook(lambda *_: seen.append(torch.is_autocast_enabled("cpu")))
    update, backward = made.state.optimizer_step, made.state.backward

    def watched_update(*arguments):
        seen.append(("update", torch.is_autocast_enabled("cpu")))
        return update(*arguments)

    def watched_backward(loss):
        seen.append(("backward", torch.is_autocast_enabled("cpu")))
        backward(loss)

    made.state.optimizer_step, made.state.backward = watched_update, watched_backward
    run_step(made.state, batches(made.state, 0)[0])
    backward_pass, one_update = ("backward", False), ("update", False)
    assert seen == [True, backward_pass, True, backward_pass, one_update, True, backward_pass, one_update]


def test_products_take_16_bits_under_amp() -> None:
    """Of a step whose models hold linear layers."""
    workload = critic(updates=1)
    made = applied("amp", new_state(workload))
    with ProductDtypes() as products:
        run_step(made.state, batches(made.state, 0)[0])
    assert set(products.calls) == {"bf16"}


def test_phases_lie_side_by_side() -> None:
    marks: list[str] = []

    @contextmanager
    def mark(phase: str):
        marks.append(phase)
        yield
        marks.append(f"/{phase}")

    made = applied("baseline", new_state(gan.build()))
    run_step(made.state, batches(made.state, 0)[0], mark)
    names = "forward backward forward backward forward optimizer forward backward forward optimizer forward optimizer"
    assert marks == [end for name in names.split() for end in (name, f"/{name}")]


def critic(updates: int) -> Workload:
    """A step that updates one of its models several times, as WGAN does its critic."""

    def step(training, batch):
        for _ in range(updates):
            loss = training.models["critic"](batch["x"]).float().square().mean()
            training.optimizers["critic"].zero_grad()
            training.backward(loss)
            training.optimizers["critic"].step()
        return loss

    return replace(
        WORKLOAD,
        build_model=lambda: {"critic": nn.Linear(16, 16), "frozen": nn.Linear(16, 16).requires_grad_(False)},
        build_optimizer=lambda models: {"critic": torch.optim.SGD(models["critic"].parameters(), lr=0.1)},
        loss=None,
        step=step,
        blocks=lambda models: (),
    )


def test_an_optimizer_may_step_several_times_under_a_scaler() -> None:
    expected = losses_of("baseline", critic(updates=3))
    assert relative_difference(losses_of("amp:dtype=fp16", critic(updates=3)), expected) < 1e-2
    made = applied("amp:dtype=fp16", new_state(critic(updates=3)))
    run_step(made.state, batches(made.state, 0)[0])
    assert made.state.skipped_updates == [False] * 3


def overflowing(at: int) -> Workload:
    """Of three updates of one step, the gradient of one is infinite."""

    def step(training, batch):
        for number in range(3):
            training.optimizers["critic"].zero_grad()
            loss = training.models["critic"](batch["x"]).float().mean()
            training.backward(loss)
            if number == at:
                training.models["critic"].weight.grad.fill_(float("inf"))
            training.optimizers["critic"].step()
        return loss

    return replace(critic(1), step=step)


@pytest.mark.parametrize("at", [0, 2])
def test_an_overflow_within_the_step_leaves_that_update_out_and_halves_the_scale(at: int) -> None:
    made = applied("amp:dtype=fp16", new_state(overflowing(at)))
    scales = []
    backward = made.state.backward

    def watched(loss: torch.Tensor) -> None:
        loss.register_hook(lambda gradient: scales.append(gradient.item()))
        backward(loss)

    made.state.backward = watched
    for index in range(2):
        run_step(made.state, batches(made.state, index)[0])
    assert made.state.skipped_updates == [number == at for number in range(3)] * 2
    assert scales == [2.0**16] * 3 + [2.0**15] * 3


def lbfgs() -> Workload:
    def step(training, batch):
        optimizer = training.optimizers[""]

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = training.model(batch["x"]).square().mean()
            training.backward(loss)
            return loss

        before = closure().detach()
        optimizer.step(closure)
        return before

    return replace(
        WORKLOAD,
        build_model=lambda: nn.Linear(16, 16),
        build_optimizer=lambda model: torch.optim.LBFGS(model.parameters(), max_iter=4),
        loss=None,
        step=step,
        blocks=lambda model: (),
    )


def test_a_closure_is_forward_and_backward_within_the_update() -> None:
    marks = []

    @contextmanager
    def mark(phase: str):
        marks.append(phase)
        yield

    state = applied("baseline", new_state(lbfgs())).state
    (batch,) = batches(state, 0)
    first = run_step(state, batch, mark).item()
    assert run_step(state, batch).item() < 0.5 * first
    evaluated = ["forward", "backward", "forward"]
    assert marks[:8] == [*evaluated, "optimizer", *evaluated, "optimizer"]


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        ("amp:dtype=fp16", "LBFGS .*gradient scaler"),
        (
            "offload:what=optimizer:to=disk",
            "offload .*LBFGS",
        ),
    ],
)
def test_what_cannot_act_on_a_closure_says_so(variant: str, reason: str) -> None:
    made = applied(variant, new_state(lbfgs()))
    with pytest.raises(UnavailableError, match=reason):
        run_step(made.state, batches(made.state, 0)[0])
    made.state.close()


def test_a_rehearsal_leaves_nothing_behind() -> None:
    state = new_state(gan.build())
    before = {name: tensor.clone() for name, tensor in state.model.state_dict().items()}
    (batch,) = batches(state, 0)
    assert run_trial_step(state, batch).item() > 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.model.state_dict().items())
    assert all(parameter.grad is None for parameter in state.model.parameters())
    assert not state.optimizers


def test_flash_looks_at_the_attention_of_an_own_step() -> None:
    def step(training, batch):
        loss = (training.model(batch["x"]) - batch["y"]).square().mean()
        training.backward(loss)
        assert training.model.head.weight.grad is not None
        training.optimizers[""].step()
        training.optimizers[""].zero_grad()
        return loss

    workload = replace(WORKLOAD, loss=None, step=step, use_sdpa=use_sdpa)
    expected = losses_of("baseline", workload)
    assert relative_difference(losses_of("flash", workload), expected) <= 1e-5


def test_a_model_by_name_is_asked_for_by_name() -> None:
    def step(training, batch):
        return training.model(batch["x"])

    with pytest.raises(UsageError, match=r"several models, critic, frozen; .*"):
        losses_of("baseline", replace(critic(1), step=step))


@pytest.mark.parametrize("returned", [None, torch.zeros(2), {"a": torch.tensor(1.0), "b": "no"}])
def test_what_is_no_loss_is_refused(returned: object) -> None:
    with pytest.raises(UsageError, match=r"step of tiny returned \w+ for '\w+'; "):
        losses_of("baseline", replace(critic(1), step=lambda training, batch: returned))


def test_several_models_need_a_step() -> None:
    with pytest.raises(UsageError, match=r"build_model of tiny returned 2 models; .*step="):
        make_model(replace(critic(1), step=None))
    with pytest.raises(UsageError, match="build_model of tiny returned a list; expected a model or a dict of models"):
        make_model(replace(critic(1), build_model=lambda: [nn.Linear(1, 1)]))


def test_a_loss_beside_a_step_is_refused() -> None:
    with pytest.raises(UsageError, match=r"\btiny\b.*\bloss\b.*\bstep"):
        replace(WORKLOAD, step=gan.step)


def penalised() -> Workload:
    """A gradient penalty, as in WGAN-GP: what a technique leaves of a backward pass is differentiated again."""

    def step(training, batch):
        x = batch["x"].requires_grad_(True)
        (gradient,) = torch.autograd.grad(training.model(x).square().sum(), x, create_graph=True)
        loss = (gradient.norm(2, dim=-1) - 1).square().mean()
        training.backward(loss)
        training.optimizers[""].step()
        training.optimizers[""].zero_grad()
        return loss

    return replace(WORKLOAD, loss=None, step=step)


@pytest.mark.parametrize("variant", ["ckpt", "amp", "offload:what=optimizer:to=disk"])
def test_a_gradient_penalty_keeps_its_losses(variant: str) -> None:
    made = applied(variant, new_state(penalised()))
    made.state.close()
    expected = losses_of("baseline", penalised(), steps=2)
    assert relative_difference(losses_of(variant, penalised(), steps=2), expected) <= made.parity.relative


def test_attention_that_cannot_be_differentiated_twice_is_found_out_before_training() -> None:
    with pytest.raises(UnavailableError, match=r"^flash .*\bbackend=math$"):
        applied("flash", new_state(penalised()))


@pytest.mark.parametrize("variant", ["ckpt:mode=selective", pytest.param("compile", marks=pytest.mark.slow)])
def test_what_torch_cannot_differentiate_twice_is_a_refusal_and_no_crash(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What refuses is AOTAutograd, whatever compiles its graphs: inductor takes half a minute for them.
    monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend="aot_eager"))
    made = applied(variant, new_state(penalised()))
    with pytest.raises(RuntimeError) as caught:
        run_step(made.state, batches(made.state, 0)[0])
    made.state.close()
    name = made.techniques[0].name
    assert explain_refusal(caught.value, made.techniques).startswith(f"{name} cannot ")
    assert explain_refusal(caught.value, ()) == ""
    assert explain_refusal(RuntimeError("the user's own"), made.techniques) == ""
