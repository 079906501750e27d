"""Where a loop's steps end and what is counted in them, of loops told by hand and by a fake clock."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from perfkit.attach.host.guard import Guard
from perfkit.attach.loop import loop_follower as loops
from perfkit.attach.loop.batch_tokens import StepTokens
from perfkit.attach.loop.loop_follower import LoopFollower, StepCounts
from perfkit.attach.loop.loop_hooks import LoopHooks
from perfkit.attach.loop.step_finder import StepFinder


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Told:
    """A loop whose boundaries are written down among what it was told."""

    def __init__(self, every: int | None = None) -> None:
        self.log: list[str] = []
        self.clock = Clock()
        self.loop = LoopFollower(StepFinder(every), lambda: self.log.append("|"), self.clock)
        self.model = nn.Linear(2, 1)
        self.optimizers = [torch.optim.SGD(self.model.parameters(), lr=0.1) for _ in range(3)]
        self.loop.largest = self.model

    def fetch(self, batch: object = None, wait: int = 0) -> None:
        self.loop.began("data")
        self.clock.now += wait
        self.loop.ended("data", batch)
        self.log.append("fetch")

    def forward(self, inputs: object = None) -> None:
        self.loop.forward(self.model, (inputs,), {})
        self.log.append("forward")

    def backward(self) -> None:
        self.loop.began("backward")
        self.loop.ended("backward", None)
        self.log.append("backward")

    def step(self, which: int = 0) -> None:
        self.loop.stepping(self.optimizers[which])
        self.loop.stepped(self.optimizers[which])
        self.log.append("step")

    def evaluate(self) -> None:
        self.model.eval()
        with torch.no_grad():
            self.forward()

    def by_hand(self) -> None:
        self.loop.step()

    def settle(self) -> None:
        self.loop.settle()

    def story(self) -> str:
        return " ".join(self.log)


def step_with(loop: LoopFollower, *optimizers: torch.optim.Optimizer) -> None:
    for optimizer in optimizers:
        loop.stepping(optimizer)
        loop.stepped(optimizer)
    loop.settle()


def make_optimizer(width: int) -> torch.optim.Optimizer:
    return torch.optim.SGD(nn.Linear(width, 2).parameters(), lr=0.1)


def test_a_model_after_another_continues_the_steps() -> None:
    boundaries: list[int] = []
    loop = LoopFollower(StepFinder(), lambda: boundaries.append(loop.take().new_models))
    folds = [make_optimizer(5) for _ in range(4)]
    for fold in folds:
        for _ in range(3):
            step_with(loop, fold)
    assert boundaries == [0, 0, 0, *[1, 0, 0] * 3]
    assert (len(loop.optimizers), loop.finder.searches, loop.has_new_model) == (1, 1, True)


def test_optimizers_of_equal_models_in_turn_are_one_loop() -> None:
    boundaries: list[str] = []
    loop = LoopFollower(StepFinder(), lambda: boundaries.append("|"))
    layers = [make_optimizer(5) for _ in range(3)]
    for _ in range(12):
        step_with(loop, *layers)
    assert len(loop.optimizers) == 3
    settled = len(boundaries)
    for _ in range(6):
        step_with(loop, *layers)
    assert len(boundaries) - settled == 6


def test_a_model_of_other_shapes_replaces_none() -> None:
    loop = LoopFollower(StepFinder(), lambda: None)
    for optimizer in (make_optimizer(5), make_optimizer(7)):
        step_with(loop, optimizer)
    assert not loop.has_new_model


@contextmanager
def within_backward(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(loops, "is_in_backward", lambda: True)
        yield


@pytest.mark.parametrize(
    ("calls", "story"),
    [
        # A step ends where the next batch is fetched.
        ("fetch forward backward step " * 2, "fetch forward backward step | fetch forward backward step"),
        # Without batches where the next forward pass begins, without both at the end of the optimizer's step.
        ("forward backward step " * 2, "forward backward step | forward backward step"),
        ("backward step " * 2, "backward | step backward | step"),
        # A backward pass of another model, which is not listened to, without the forward pass that was waited for.
        ("forward backward step backward step", "forward backward step | backward | step"),
        ("forward step step step", "forward step | step | step"),  # of an optimizer alone
        # One that was ending when it is told by hand ends once, and is settled once.
        ("forward step by_hand forward", "forward step | forward"),
        ("forward step settle settle", "forward step |"),
        ("forward step evaluate", "forward step | forward"),  # an evaluation is a part of the next
    ],
)
def test_where_a_step_ends(calls: str, story: str) -> None:
    told = Told()
    for call in calls.split():
        getattr(told, call)()
    assert told.story() == story


def test_within_a_backward_pass_no_step_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    for _ in range(2):
        told.loop.began("backward")
        with within_backward(monkeypatch):
            told.step()
            told.step()
        told.loop.ended("backward", None)
        told.log.append("backward")
    assert told.log == ["step", "step", "backward", "|", "step", "step", "backward"]


def test_accumulation_is_one_step() -> None:
    told = Told()
    for _ in range(2):
        for _ in range(2):
            told.fetch()
            told.forward()
            told.backward()
        told.step()
    once = "fetch forward backward fetch forward backward step"
    assert told.story() == f"{once} | {once}"
    told.loop.settle()
    counts = told.loop.take()
    assert (counts.fetches, counts.forwards, counts.backwards, counts.optimizer_steps) == (4, 4, 4, 2)


def test_steps_told_by_hand_are_the_only_ones() -> None:
    told = Told()
    told.step()
    told.loop.step()
    told.step()
    told.forward()
    told.step()
    told.fetch()
    told.loop.settle()
    assert told.log == ["|", "step", "|", "step", "forward", "step", "fetch"]
    assert "step()" in told.loop.steps_by()


@pytest.mark.parametrize(
    ("training", "grad", "evaluations", "forwards"),
    [(False, False, 1, 0), (True, False, 0, 1), (False, True, 0, 1), (True, True, 0, 1)],
)
def test_what_an_evaluation_is(training: bool, grad: bool, evaluations: int, forwards: int) -> None:
    """In evaluation mode without gradients. A GAN's generator is called without gradients in training mode, and a
    frozen part of a model in evaluation mode with gradients."""
    told = Told()
    told.model.train(training)
    with torch.set_grad_enabled(grad):
        told.forward(torch.ones(4, 2))
    counts = told.loop.take()
    assert (counts.evaluations, counts.forwards) == (evaluations, forwards)
    assert counts.given == 4 * forwards


def test_an_evaluation_in_inference_mode() -> None:
    told = Told()
    told.model.eval()
    with torch.inference_mode():
        told.forward()
    assert told.loop.take().evaluations == 1


def test_an_evaluation_told_by_hand() -> None:
    told = Told()
    told.loop.evaluated()
    assert told.loop.take().evaluations == 1


def test_steps_with_inputs_of_equal_shapes_are_told_from_others() -> None:
    shapes = []
    for inputs in ([(8, 5), (8, 5)], [(8, 5), (8, 5)], [(8, 5)], [(8, 5), (8, 6)]):
        told = Told()
        for shape in inputs:
            told.forward(torch.zeros(shape))
        shapes.append(told.loop.take().input_shapes)
    assert shapes[0] == shapes[1]
    assert len(set(shapes)) == 3


def test_waiting_for_data_and_samples_are_counted() -> None:
    told = Told()
    told.fetch((torch.zeros(8, 2), torch.zeros(8)), wait=5)
    told.fetch({"ids": torch.zeros(3, 2)}, wait=7)
    told.forward(torch.zeros(11, 2))
    counts = told.loop.take()
    assert counts.input_shapes
    assert counts.input_shape == (11, 2)
    counts.input_shapes, counts.input_shape = 0, ()
    assert counts.tokens == StepTokens(batches=2)
    counts.tokens = StepTokens()
    assert counts == StepCounts(forwards=1, fetches=2, data_wait_ns=12, fetched=11, given=11, sequence_batches=1)
    assert told.loop.take() == StepCounts()
    assert told.loop.fetches


def test_samples_are_those_of_the_largest_module_alone() -> None:
    told = Told()
    told.loop.forward(nn.Linear(1, 1), (torch.zeros(64, 1),), {})
    told.forward(torch.zeros(4, 2))
    assert told.loop.take().given == 4


def test_without_sizing_neither_samples_nor_autocast_are_looked_at() -> None:
    told = Told()
    told.loop.sizing = False
    told.fetch(torch.zeros(8, 2), wait=5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        told.forward(torch.zeros(8, 2))
    counts = told.loop.take()
    assert (counts.fetched, counts.given, counts.data_wait_ns, told.loop.autocast) == (0, 0, 5, None)


def test_autocast_is_that_of_the_last_training_pass() -> None:
    told = Told()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        told.forward()
    assert told.loop.autocast == torch.bfloat16
    told.evaluate()
    assert told.loop.autocast == torch.bfloat16
    told.model.train()
    told.forward()
    assert told.loop.autocast is None


def test_optimizers_are_kept_once_in_their_order() -> None:
    told = Told()
    for which in (1, 0, 1):
        told.step(which)
    assert told.loop.optimizers == (told.optimizers[1], told.optimizers[0])


def test_what_steps_are_told_by() -> None:
    told = Told()
    assert told.loop.steps_by().startswith("optimizer steps")
    told.step()
    assert "SGD" in told.loop.steps_by()
    assert "2" not in told.loop.steps_by()
    for which in (1, 0) * 4:
        told.step(which)
    assert "SGD" in told.loop.steps_by()
    assert "2 optimizers" in told.loop.steps_by()
    assert "3 optimizer steps" in Told(every=3).loop.steps_by()


def test_an_optimizer_that_runs_the_passes_itself() -> None:
    boundaries: list[StepCounts] = []
    loop = LoopFollower(StepFinder(), lambda: boundaries.append(loop.take()))
    model = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, tolerance_grad=0, tolerance_change=0)
    inputs = torch.ones(4, 2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = (model(inputs) - 1).square().mean()
        loss.backward()
        return loss

    hooks = LoopHooks(loop, Guard(lambda: pytest.fail("switched off")))
    hooks.install()
    hooks.listen([model])
    try:
        for _ in range(3):
            optimizer.step(closure)
        loop.settle()
    finally:
        hooks.remove()
    assert [each.optimizer_steps for each in boundaries] == [1, 1, 1]
    assert all(each.backwards == each.forwards >= 1 for each in boundaries)


@pytest.mark.parametrize(("new", "given", "again", "closures"), [(False, 32, 4, 0), (True, 160, 0, 4)])
def test_evaluations_of_one_batch_count_once(new: bool, given: int, again: int, closures: int) -> None:
    """And where each evaluation is called with another tensor, it is said that they may be the same samples."""
    told = Told()
    batch = torch.ones(32, 2)
    told.loop.stepping(told.optimizers[0])
    for _ in range(5):
        told.forward(batch.clone() if new else batch)
        told.backward()
    told.loop.stepped(told.optimizers[0])
    told.loop.settle()
    counts = told.loop.take()
    assert (counts.given, counts.again, counts.closures) == (given, again, closures)


def test_a_batch_that_was_copied_into_the_same_tensor_is_another() -> None:
    told = Told()
    static = torch.zeros(8, 2)
    for _ in range(3):
        static.copy_(torch.ones(8, 2))
        told.forward(static)
    counts = told.loop.take()
    assert (counts.given, counts.again) == (24, 0)


def test_the_same_batch_in_the_next_step_counts_again() -> None:
    told = Told()
    batch = torch.ones(8, 2)
    for _ in range(2):
        told.forward(batch)
        assert told.loop.take().given == 8


def test_a_vector_may_be_one_sample() -> None:
    told = Told()
    told.forward(torch.zeros(4))
    assert told.loop.take().single == 1


def test_an_optimizer_that_the_program_drops_is_not_held() -> None:
    loop = LoopFollower(StepFinder(), lambda: None)
    parameter = torch.nn.Parameter(torch.zeros(1))
    for _ in range(3):
        loop.stepped(torch.optim.SGD([parameter], lr=0.1))
    gc.collect()
    assert loop.optimizers == ()
