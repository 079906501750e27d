"""Follows a loop through its hooks: the events of each step, and the ends of steps."""

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.attach.loop.backward_passes import BackwardPasses
from perfkit.attach.loop.batch_tokens import StepTokens
from perfkit.attach.loop.padding import PaddingCount
from perfkit.attach.loop.phase_marks import PhaseMarks
from perfkit.attach.loop.step_finder import StepFinder
from perfkit.attach.loop.step_units import (
    explain_doubt,
    find_batch_tensor,
    find_tensors,
    get_batch_size,
    get_stated_size,
    has_sequence_axes,
)
from perfkit.instruments.autograd_state import is_in_backward


@dataclass(slots=True)
class StepCounts:
    """What was counted since the step before ended. `evaluations` are forward passes in evaluation mode without
    gradients, and of modules that training does not call those in that mode or without gradients; `captures` are
    boundaries that were passed over since a CUDA graph was being captured; `new_models` took the place of others;
    `collection_ns` is the time in which Python collected garbage,
    `data_wait_ns` the time in which the loop waited for DataLoaders, over `fetches` batches of `fetched` samples;
    `given` are the samples that the largest model was called with. Of its calls `again` were with what it had been
    called with in this step before, which counts once; `closures` were more than the first within one step of an
    optimizer, on what may be the same samples; and `single` were with vectors, each of which may be one sample;
    `batch_doubt` and `input_doubt` say why the first dimension of a batch, or of the model's input, may not be the
    samples; and `sequence_batches` may have the sequence before the samples. `input_shapes` is equal for steps in which
    the largest model was called with the same shapes, the largest of which is `input_shape`; `tokens` are those of the
    batches."""

    optimizer_steps: int = 0
    forwards: int = 0
    evaluations: int = 0
    captures: int = 0
    new_models: int = 0
    backwards: int = 0
    fetches: int = 0
    data_wait_ns: int = 0
    collection_ns: int = 0
    fetched: int = 0
    given: int = 0
    again: int = 0
    closures: int = 0
    single: int = 0
    batch_doubt: str = ""
    input_doubt: str = ""
    sequence_batches: int = 0
    input_shapes: int = 0
    input_shape: tuple[int, ...] = ()
    tokens: StepTokens = field(default_factory=StepTokens)


class LoopFollower:
    """Follows a loop (`perfkit.attach.loop.loop_hooks.Follower`) and calls `on_step` between two of its steps.

    A step ends with an optimizer's step, but for what belongs to it and comes after, such as clearing the gradients: so
    the boundary is where the next batch is fetched or the next forward pass begins. Where neither can be seen it is the
    end of the optimizer's step. In a loop without an optimizer it ends with a backward pass.

    Attributes:
        sizing: whether samples and autocast are looked at, which is not worth its time in every step.
        counts: of the step that is under way; whoever reads them at a boundary replaces them.
        fetches: whether a DataLoader was ever asked for a batch.
        heard: whether a module that is listened to was called since `heard` was cleared.
        called: the identities of the modules that were.
        untrained: the identities of the modules that are listened to for evaluations alone.
        largest: the module whose calls tell how many samples a step has.
        padding: the padding among the tokens of the largest model's first calls.
        passes: the backward passes of a loop in which no optimizer has stepped.
        has_new_model: whether a model with an optimizer of its own has taken the place of another (folds, a sweep);
            whoever looks at what is trained clears it.
        within: called before each forward and backward pass, in the middle of a step.
        autocast: the dtype that the last training forward pass was autocast to on `device`, None for none.
    """

    def __init__(
        self, finder: StepFinder, on_step: Callable[[], None], clock_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self.finder = finder
        self.phases = PhaseMarks()
        self.passes = BackwardPasses()
        self.padding = PaddingCount()
        self.counts = StepCounts()
        self.has_new_model = False
        self._optimizers: dict[int, weakref.ref[Optimizer]] = {}
        self._replaced: dict[int, weakref.ref[Optimizer]] = {}
        self._replaceable = True
        self.heard = False
        self.called: set[int] = set()
        self.untrained: set[int] = set()
        self.by_hand = False
        self.autocast: torch.dtype | None = None
        self.device = "cpu"
        self.sizing = True
        self.fetches = False
        self.largest: nn.Module | None = None
        self.within: Callable[[], None] = _do_nothing
        self._on_step = on_step
        self._clock_ns = clock_ns
        self._since_ns = 0
        self._ending = False
        self._fetching = False
        self._stepping = False
        self._evaluated = False  # the largest model was called within the optimizer's step that is under way
        self._inputs: list[tuple[weakref.ref[torch.Tensor], int]] = []  # its inputs, and their version

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """Every optimizer that has stepped and that the program still has, in the order in which they did first."""
        return tuple(optimizer for known in self._optimizers.values() if (optimizer := known()) is not None)

    def add_optimizer(self, optimizer: Optimizer) -> None:
        """Add an optimizer of the loop, without keeping it alive: a loop may make one for every step."""
        known = self._optimizers.get(id(optimizer))
        if known is None or known() is not optimizer:
            self._optimizers.pop(id(optimizer), None)  # one that was freed, and had the same address
            self._optimizers = {id(kept): weakref.ref(kept) for kept in (*self.optimizers, optimizer)}

    def _replace_optimizer(self, optimizer: Optimizer) -> None:
        """Let a new optimizer take the place of one that is alike and trains other tensors, until that one steps again:
        then both are part of the loop, and none is replaced any more."""
        number = id(optimizer)
        before = self._replaced.pop(number, None)
        if before is not None and before() is optimizer:
            self._replaceable = False
            self.finder.restart([*map(id, self.optimizers), number])
        known = self._optimizers.get(number)
        if not self._replaceable or (known is not None and known() is optimizer):
            return
        old = next((other for other in self.optimizers if _is_successor(optimizer, other)), None)
        if old is not None and self.finder.replace(id(old), number):
            self._replaced[id(old)] = self._optimizers.pop(id(old))
            self.has_new_model = True
            self.counts.new_models += 1

    def take(self) -> StepCounts:
        """The counts of the step that has ended, which begin anew."""
        counts, self.counts = self.counts, StepCounts()
        self._inputs.clear()
        return counts

    def step(self) -> None:
        """The program marks the end of a step; from now on nothing else is a boundary."""
        self.by_hand = True
        self._end_step()

    def evaluated(self) -> None:
        """The program marks an evaluation in this step."""
        self.counts.evaluations += 1

    def let_go(self) -> None:
        """Stop following: release everything of the program."""
        self._optimizers.clear()
        self._replaced.clear()
        self._inputs.clear()
        self.passes.let_go()
        self.largest = None
        self.untrained = set()

    def settle(self) -> None:
        """A step whose optimizer has stepped ends now: nothing follows."""
        if self._ending:
            self._end_step()

    def steps_by(self) -> str:
        """The basis of step detection, in words."""
        if self.by_hand:
            return "the program's own calls of step()"
        if self.finder.every is not None:
            return f"every {self.finder.every} optimizer steps, as requested"
        last = next((optimizer for optimizer in self.optimizers if id(optimizer) == self.finder.last), None)
        if last is None:
            return "backward passes, since no optimizer stepped" if self.passes.steps else "optimizer steps (none seen)"
        count = len(self.optimizers)
        return f"the steps of {type(last).__name__}" + (
            f", the least frequent or last of {count} optimizers" if count > 1 else ""
        )

    def began(self, phase: str) -> None:
        if self._ending:
            if phase == "backward":  # without a sign of its forward pass: wait for none until there is one again
                self.heard = self._fetching = False
            self._end_step()
        if phase == "data":
            self._fetching = self.fetches = True
            self.counts.fetches += 1
            self._since_ns = self._clock_ns()
        else:
            self.within()
            self.counts.backwards += 1
            if self._without_optimizer:
                self.passes.begin_pass()
        self.phases.enter(phase)

    def ended(self, phase: str, result: Any) -> None:
        self.phases.leave(phase)
        if phase == "data":
            self.counts.data_wait_ns += self._clock_ns() - self._since_ns
            if self.sizing:
                self.counts.fetched += get_batch_size(result)
                self.counts.batch_doubt = self.counts.batch_doubt or explain_doubt(result)
                self.counts.sequence_batches += has_sequence_axes(result)
                self.counts.tokens.add(result)
        elif self._without_optimizer:
            self.passes.end_pass()
            self._ending = self.passes.steps
        elif self.by_hand and not self._optimizers:
            self.passes.look()

    def collected(self, took_ns: int) -> None:
        self.counts.collection_ns += took_ns

    @property
    def _without_optimizer(self) -> bool:
        """True if backward passes may be the only sign of steps."""
        return not (self.by_hand or self._optimizers or self._stepping or self.finder.every is not None)

    def forward(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        trains, records = module.training, torch.is_grad_enabled()
        other = id(module) in self.untrained
        if other and trains and records:
            return
        if self._ending:
            self._end_step()
        self.within()
        if not other:
            self.heard = True
            self.called.add(id(module))
        if other or not (trains or records):
            self.counts.evaluations += 1
            return
        self.counts.forwards += 1
        if self.sizing and module is self.largest:
            self._count_samples(find_batch_tensor((inputs, named)), get_stated_size((inputs, named)))
            self.padding.look(module, inputs, named)
            shapes = tuple(tensor.shape for tensor in find_tensors((inputs, named)))
            self.counts.input_shapes = hash((self.counts.input_shapes, shapes))
            seen = [self.counts.input_shape, *map(tuple, shapes)]
            self.counts.input_shape = max(seen, key=_count_elements)
            self.counts.input_doubt = self.counts.input_doubt or explain_doubt((inputs, named))
            self.autocast = torch.get_autocast_dtype(self.device) if torch.is_autocast_enabled(self.device) else None
        self.phases.enter("forward")

    def _count_samples(self, batch: torch.Tensor | None, stated: int | None) -> None:
        """Count the samples of `batch`, the input of the largest model: `stated`, else its first dimension."""
        counts = self.counts
        if batch is None:
            counts.given += stated or 0
            return
        version = 0 if batch.is_inference() else batch._version  # the next batch may be copied into the same tensor
        if any(seen() is batch and then == version for seen, then in self._inputs):
            counts.again += 1
            return
        self._inputs.append((weakref.ref(batch), version))
        counts.closures += self._evaluated
        self._evaluated = self._stepping
        counts.single += stated is None and batch.dim() == 1
        counts.given += int(batch.shape[0]) if stated is None else stated

    def stepping(self, _optimizer: Optimizer) -> None:
        if self._ending and not is_in_backward():  # neither a batch nor a forward pass was seen between two updates
            self._end_step()
        self._stepping, self._evaluated = True, False
        self.phases.enter("optimizer")

    def stepped(self, optimizer: Optimizer) -> None:
        self._stepping = self._evaluated = False
        self.phases.leave("optimizer")
        self.counts.optimizer_steps += 1
        self.passes.let_go()
        self._replace_optimizer(optimizer)
        self.add_optimizer(optimizer)
        if self.finder.is_step_end(id(optimizer)) and not self.by_hand:
            # Within a backward pass no profiler may begin or end: autograd restores what its threads had before.
            if self.heard or self._fetching or is_in_backward():
                self._ending = True
            else:
                self._end_step()

    def _end_step(self) -> None:
        self._ending = False
        self.phases.end()
        self._on_step()


def _count_elements(shape: tuple[int, ...]) -> int:
    return prod(shape) if shape else 0


def _is_successor(optimizer: Optimizer, other: Optimizer) -> bool:
    """True if both are of one class and update other tensors of the same shapes."""
    if type(optimizer) is not type(other):
        return False
    own, others = _list_parameters(optimizer), _list_parameters(other)
    return [each.shape for each in own] == [each.shape for each in others] and not {*map(id, own)} & {*map(id, others)}


def _list_parameters(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _do_nothing() -> None:
    pass
