"""The recorder between the steps of loops that somebody else wrote, and closed in the middle of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from torch import nn
from torch.optim.optimizer import (
    _global_optimizer_post_hooks,
    _global_optimizer_pre_hooks,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.allocations import GRADIENT, NONE, OPTIMIZER_STATE, PARAMETER, UNKNOWN, Allocations
from perfkit.instruments.memory.memory_recording import record_memory
from perfkit.instruments.range_marks import mark_phase, mark_step
from perfkit.instruments.recording import Recording, drive_recording
from perfkit.instruments.training.tensors import list_trained_blocks
from perfkit.instruments.training.trained_models import TrainedModels

CPU = torch.device("cpu")
BATCH, NOISE, INNER, WIDE = 7, 19, 17, 33
MAKER, CRITIC = INNER * NOISE * 4, WIDE * INNER * 4  # bytes of a weight of each, that no other tensor has


GRADIENTS = [("0", WIDE * 4), ("0", CRITIC), ("2", 4), ("2", WIDE * 4)]  # of `InClosure`


class Boundary:
    """What a loop calls between two steps: it ends the mark of a step, resumes the recording, and marks the next."""

    def __init__(self, recording: Recording[Allocations], first: int = 1) -> None:
        self.recording = recording
        self.found: Allocations | None = None
        self.number = first
        self._mark: AbstractContextManager[None] | None = None

    def __call__(self) -> bool:
        """Whether the recording wants another step."""
        self.unmark()
        if self.found is None:
            try:
                next(self.recording)
            except StopIteration as ended:
                self.found = ended.value
        self._mark = mark_step(self.number)
        self._mark.__enter__()
        self.number += 1
        return self.found is None

    def unmark(self) -> None:
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None


def silently(boundary: Boundary) -> None:
    """As hooks must: what they return counts."""
    boundary()


class Adversaries:
    """A GAN, whose losses give gradients to the critic that its own optimizer does not use."""

    def __init__(self) -> None:
        self.maker = nn.Sequential(nn.Linear(NOISE, INNER), nn.ReLU())
        self.critic = nn.Sequential(nn.Linear(INNER, WIDE), nn.ReLU(), nn.Linear(WIDE, 1))
        self.makers = torch.optim.Adam(self.maker.parameters(), lr=1e-3)
        self.critics = torch.optim.AdamW(self.critic.parameters(), lr=1e-3)
        self.real = torch.randn(BATCH, INNER)
        self.trained = TrainedModels(CPU, {"maker": self.maker, "critic": self.critic}, (self.makers, self.critics))

    def step(self) -> None:
        self.critics.zero_grad()
        made = self.maker(torch.randn(BATCH, NOISE))
        with mark_phase("backward"):
            (self.critic(made.detach()).mean() - self.critic(self.real).mean()).backward()
        with mark_phase("optimizer"):
            self.critics.step()
            self.critics.zero_grad()
        self.makers.zero_grad()
        loss = -self.critic(made).mean()
        with mark_phase("backward"):
            loss.backward()
        with mark_phase("optimizer"):
            self.makers.step()


class InClosure:
    """Forward and backward in a closure that the optimizer's step calls."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(INNER, WIDE), nn.ReLU(), nn.Linear(WIDE, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.trained = TrainedModels(CPU, {"": self.model}, (self.optimizer,))

    def closure(self) -> torch.Tensor:
        self.optimizer.zero_grad()
        with mark_phase("forward"):
            loss = self.model(torch.randn(BATCH, INNER)).square().mean()
        with mark_phase("backward"):
            loss.backward()
        return loss

    def step(self) -> None:
        self.optimizer.step(self.closure)


def recording_of(trained: TrainedModels, count: int = 2) -> Recording[Allocations]:
    return record_memory(count, trained, blocks=lambda: list_trained_blocks(trained))


def by_hand(loop: Adversaries | InClosure, first: int = 1) -> Allocations:
    """What is recorded of a loop whose boundaries are called between its steps."""
    boundary = Boundary(recording_of(loop.trained), first)
    while boundary():
        loop.step()
    assert boundary.found is not None
    return boundary.found


def rows(found: Allocations) -> list[tuple[object, ...]]:
    """What can be told of each event but when and where."""
    texts = (found.category, found.module, found.shape, found.op)
    return [
        (
            int(found.step[event]),
            int(found.phase[event]),
            int(found.size[event]),
            *(found.get_text(c, event) for c in texts),
        )
        for event in range(len(found))
    ]


def state(found: Allocations) -> list[tuple[str, str, int]]:
    """What was known of the training state at the start (other tests' tensors may be there beside it)."""
    return [(block.name, block.category, block.size_bytes) for block in found.known if block.category != UNKNOWN]


def of_category(found: Allocations, category: str, step: int) -> list[tuple[str, int]]:
    """Module and size of the blocks of a category that a step makes."""
    return sorted(
        (found.get_text(found.module, event), int(found.size[event]))
        for event in range(len(found))
        if found.step[event] == step and found.size[event] > 0 and found.get_text(found.category, event) == category
    )


def hooks(trained: TrainedModels) -> int:
    """How many hooks there are that the recorder sets."""
    tables: list[object] = [_global_optimizer_pre_hooks, _global_optimizer_post_hooks]
    for each in trained.optimizers:
        tables += [each._optimizer_step_pre_hooks, each._optimizer_step_post_hooks]
    for _, module in trained.named_modules():
        tables += [module._forward_pre_hooks, module._forward_hooks, module._forward_hooks_always_called]
        tables.append([name for name in vars(module) if name == "_compiled_call_impl"])
    return sum(len(table) for table in tables)


def undone(trained: TrainedModels) -> bool:
    return not torch._C._autograd._profiler_enabled() and hooks(trained) == 0


@pytest.mark.parametrize("kind", [Adversaries, InClosure])
def test_a_loop_by_hand_is_recorded_as_one_that_is_driven(kind: Callable[[], Adversaries | InClosure]) -> None:
    loop = kind()
    loop.step()
    boundary = Boundary(recording_of(loop.trained))
    steps = 0
    while boundary():
        loop.step()
        steps += 1
    assert boundary.found is not None
    assert steps == 5, "one before those that count, one under no profiler, and one to tell what blocks are"
    assert undone(loop.trained)

    def step(index: int) -> None:
        with mark_step(index):
            loop.step()

    driven = drive_recording(recording_of(loop.trained), step, 1)
    assert sorted(set(driven.step.tolist()) - {NONE}) == [2, 3]
    assert rows(boundary.found) == rows(driven)
    assert state(boundary.found) == state(driven)


def test_two_models_and_two_optimizers() -> None:
    loop = Adversaries()
    loop.step()
    found = by_hand(loop)
    known = {(block.category, block.name): block.size_bytes for block in found.known}
    assert known[PARAMETER, "maker.0.weight"] == MAKER
    assert known[PARAMETER, "critic.0.weight"] == CRITIC
    assert known[OPTIMIZER_STATE, "exp_avg[0:0]"] == MAKER
    assert known[OPTIMIZER_STATE, "exp_avg[1:0]"] == CRITIC
    # Both models' gradients stay until the next step clears them.
    assert known[GRADIENT, "maker.0.weight"] == MAKER
    assert known[GRADIENT, "critic.0.weight"] == CRITIC
    critic = [("critic.0", WIDE * 4), ("critic.0", CRITIC), ("critic.2", 4), ("critic.2", WIDE * 4)]
    for step in (2, 3):
        # The critic's own, and those of the maker's loss; what takes their addresses in between is none of them.
        expected = sorted([*critic, *critic, ("maker.0", INNER * 4), ("maker.0", MAKER)])
        assert of_category(found, GRADIENT, step) == expected
    balance = build_memory_account(found)
    assert sum(share.bytes for share in balance.categories) == balance.peak_bytes
    assert balance.step_peaks[0] == balance.step_peaks[1]
    assert balance.growth == ()


def test_gradients_of_a_closure() -> None:
    loop = InClosure()
    loop.step()
    found = by_hand(loop)
    for step in (2, 3):
        assert of_category(found, GRADIENT, step) == GRADIENTS


def test_optimizer_state_that_appears_in_the_step_before() -> None:
    loop = InClosure()
    found = by_hand(loop, first=0)
    assert sorted(set(found.step.tolist()) - {NONE}) == [1, 2]
    moments = sum(block.size_bytes for block in found.known if block.category == OPTIMIZER_STATE)
    assert moments == 2 * sum(each.nbytes for each in loop.model.parameters()) + 4 * 4


@pytest.mark.parametrize("register", [register_optimizer_step_pre_hook, register_optimizer_step_post_hook])
def test_a_boundary_within_a_hook_for_all_optimizers(register) -> None:
    """Whatever such a hook brings about, the table of hooks is being read and must not change."""
    loop = InClosure()
    loop.step()
    boundary = Boundary(recording_of(loop.trained))
    handles = [register(lambda *_: silently(boundary)), register(lambda *_: None)]
    try:
        for _ in range(7):
            loop.step()
    finally:
        boundary.unmark()
        for handle in handles:
            handle.remove()
    found = boundary.found
    assert sorted(set(found.step.tolist()) - {NONE}) == [2, 3]
    for step in (2, 3):
        assert of_category(found, GRADIENT, step) == GRADIENTS
    assert undone(loop.trained)


def test_a_boundary_within_a_models_forward_hook() -> None:
    loop = Adversaries()
    loop.step()
    boundary = Boundary(recording_of(loop.trained))
    handle = loop.maker.register_forward_pre_hook(lambda *_: silently(boundary))
    for _ in range(7):
        loop.step()
    handle.remove()
    boundary.unmark()
    found = boundary.found
    assert sorted(set(found.step.tolist()) - {NONE}) == [2, 3]
    assert ("maker.0", MAKER) in of_category(found, GRADIENT, 2)
    assert undone(loop.trained)


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("marked", [True, False], ids=["in a step", "between steps"])
def test_closed_in_the_middle_everything_is_undone(after: int, marked: bool) -> None:
    loop = Adversaries()
    loop.step()
    boundary = Boundary(recording_of(loop.trained))
    for _ in range(after):
        assert boundary()
        loop.step()
    assert torch._C._autograd._profiler_enabled() == (after != 4)
    assert hooks(loop.trained) > 0
    if not marked:
        boundary.unmark()
    boundary.recording.close()
    boundary.unmark()
    assert undone(loop.trained)
    assert list(boundary.recording) == []
    assert len(by_hand(loop))


def test_closed_before_it_began() -> None:
    loop = InClosure()
    recording = recording_of(loop.trained)
    recording.close()
    assert undone(loop.trained)


def test_the_history_is_kept_on_around_the_steps_that_count_and_no_others() -> None:
    on: list[str] = []

    class History:
        def __enter__(self) -> None:
            on.append("on")

        def __exit__(self, *_: object) -> None:
            on.append("off")

    loop = InClosure()
    recording = record_memory(2, loop.trained, blocks=lambda: list_trained_blocks(loop.trained), history=History())
    drive_recording(recording, lambda index: on.append(str(index)), 0)
    assert on == ["0", "on", "1", "2", "off", "3", "4"]
    on.clear()
    recording = record_memory(2, loop.trained, blocks=lambda: list_trained_blocks(loop.trained), history=History())
    next(recording)
    next(recording)
    recording.close()
    assert on == ["on", "off"]


def test_steps_that_nobody_marked_are_not_told_from_what_was_before() -> None:
    loop = InClosure()
    found = drive_recording(recording_of(loop.trained), lambda _: loop.step(), 0)
    assert set(found.step.tolist()) <= {NONE}
