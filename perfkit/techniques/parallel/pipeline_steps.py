"""A step of pipeline parallelism: torch's schedule over the stages of this rank, each action marked and timed."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from time import perf_counter
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import ProcessGroup
from torch.distributed.pipelining.stage import PipelineStage

from perfkit.core.errors import UnavailableError
from perfkit.devices.accelerator import is_cpu
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.phases import Mark
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.parallel import pipeline_schedules
from perfkit.techniques.parallel.pipeline_cut import CutModel
from perfkit.techniques.parallel.pipeline_split import RankStages
from perfkit.workloads.model_loss import compute_loss
from perfkit.workloads.workload import Batch, count_samples, move_to_device

# Counters, of a step.
BUSY, PIPELINE = "stage_busy_s", "pipeline_s"
# Facts.
IN_FLIGHT, EXPECTED_IN_FLIGHT = "microbatches_in_flight", "scheduled_microbatches_in_flight"

_PHASES = {"F": "forward", "B": "backward", "I": "backward", "W": "backward"}


class SharedParameters(NamedTuple):
    """Parameters that stages of several ranks use, those of the group: their gradients are summed over it."""

    group: ProcessGroup
    parameters: tuple[nn.Parameter, ...]


class PipelineSteps:
    """`TrainState.engine` with pipeline parallelism: all microbatches of a step go through one schedule.

    torch's schedule is made with the first step of this size. Every rank returns the last stage's loss.
    """

    def __init__(
        self, state: TrainState, cut: CutModel, stages: RankStages, shared: Iterable[SharedParameters]
    ) -> None:
        self._state = state
        self._cut = cut
        self.stages = stages
        self._shared = tuple(shared)
        self._schedules: dict[int, tuple[Any, int]] = {}
        self._batches: list[Batch] = []
        self._shapes: dict[str, torch.Size] = {}
        self._mark: Mark = lambda _name: nullcontext()
        self._held = self._most = 0
        self.busy_s = 0.0
        state.counters |= {BUSY: 0.0, PIPELINE: 0.0}

    def __call__(self, batches: Sequence[Batch], mark: Mark) -> torch.Tensor:
        state, stages = self._state, self.stages
        self._mark, self.busy_s = mark, 0.0
        with mark("data"):
            self._batches = [move_to_device(batch, state.device, state.non_blocking) for batch in batches]
        self._check_batches()
        if len(batches) not in self._schedules:
            self._schedules[len(batches)] = self._make_schedule(len(batches))
        schedule, expected = self._schedules[len(batches)]
        self._most = 0
        numbers = torch.arange(len(batches))
        losses: list[torch.Tensor] = []
        begun = perf_counter()
        schedule.step(
            *((numbers,) if 0 in stages.own else ()),
            target=numbers if stages.total - 1 in stages.own else None,
            losses=losses,
            return_outputs=False,
        )
        if is_cpu(state.device) and state.planned_for is None:
            # A rank that is done waits for the others here, not in its next exchange.
            dist.barrier(group=state.mesh.group("pp"))
        ended = perf_counter()
        for group, parameters in self._shared:
            _sum_gradients(parameters, group)
        if state.mesh.size("dp") > 1:
            _sum_gradients(state.model.parameters(), state.mesh.group("dp"), average=state.mesh.size("dp"))
        loss = sum((part.detach().float() for part in losses), start=torch.zeros((), device=state.device))
        dist.broadcast(loss, src=state.mesh.lines["pp"][stages.last], group=state.mesh.group("pp"))
        with mark("optimizer"):
            state.update()
            state.zero_grad()
        self._batches = []
        state.facts |= {IN_FLIGHT: float(self._most), EXPECTED_IN_FLIGHT: float(expected)}
        state.counters[BUSY] += self.busy_s
        state.counters[PIPELINE] += ended - begun
        return loss

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute this rank's part of a batch's first microbatch, given zero activations, as one number.

        Its value means nothing; from it a backward pass goes through all that the rank computes.
        """
        samples = self.stages.samples
        microbatch = {name: tensor[:samples] for name, tensor in batch.items()}
        total = torch.zeros((), device=self._state.device)
        for stage in self.stages.own:
            received = None
            if stage > 0:
                layout = self.stages.boundaries[stage - 1]
                received = torch.zeros(layout.shape, dtype=layout.dtype, device=self._state.device, requires_grad=True)
            total = total + self._run_stage(stage, received, microbatch).sum()
        return total

    def _run_stage(self, stage: int, received: torch.Tensor | None, batch: Batch) -> torch.Tensor:
        state = self._state
        with state.enter_forward_contexts():
            return self._cut.run(stage, received, lambda: compute_loss(state.workload, state.called[""], batch))

    def _run_microbatch(self, stage: int, number: int, received: torch.Tensor | None) -> torch.Tensor:
        sent = self._run_stage(stage, received, self._batches[number])
        return sent / len(self._batches) if stage == self.stages.total - 1 else sent

    def _make_schedule(self, microbatches: int) -> tuple[Any, int]:
        """Make the schedule for this number of microbatches, with the number that a rank holds at once."""
        name, ranks, rank = self.stages.name, self.stages.ranks, self.stages.rank
        stages: list[PipelineStage] = [_MarkedStage(self, stage) for stage in self.stages.own]
        schedule = pipeline_schedules.make_schedule(name, stages, microbatches, lambda loss, _number: loss)
        return schedule, pipeline_schedules.count_in_flight(name, schedule, rank, ranks, microbatches)

    def _check_batches(self) -> None:
        """Check that batches have the first step's sizes: with others a rank would fail while the rest wait for it."""
        for batch in self._batches:
            shapes = {name: tensor.shape for name, tensor in batch.items()}
            self._shapes = self._shapes or shapes
            if count_samples(batch) != self.stages.samples or shapes != self._shapes:
                shown = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
                raise UnavailableError(
                    f"pp needs microbatches of one size, {self.stages.samples} samples each, and one has {shown}"
                )

    @contextmanager
    def action(self, stage: int, kind: str, number: int) -> Iterator[None]:
        """Something that a stage computes: F a forward pass, B a backward pass, I and W its two halves."""
        begun = perf_counter()
        with self._mark(_PHASES[kind]), self._mark(f"{stage}{kind}{number}"):
            yield
        self.busy_s += perf_counter() - begun
        self._held += (kind == "F") - (kind in "BW")
        self._most = max(self._most, self._held)


class _StageModule(nn.Module):
    """The module that torch sees as a stage: a call is that of the model, which is cut to the stage."""

    def __init__(self, steps: PipelineSteps, stage: int) -> None:
        super().__init__()
        self._steps = (steps, stage)
        self.number = 0

    def forward(self, activation: torch.Tensor) -> torch.Tensor:
        """The first stage gets the number of the microbatch, the others get activations."""
        steps, stage = self._steps
        return steps._run_microbatch(stage, self.number, activation if stage > 0 else None)

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        steps, stage = self._steps
        yield from steps.stages.parameters[stage]


class _MarkedStage(PipelineStage):
    """A stage whose actions are reported."""

    def __init__(self, steps: PipelineSteps, stage: int) -> None:
        stages = steps.stages
        number = torch.empty(1, dtype=torch.int64, device="meta")
        loss = torch.empty((), device="meta", requires_grad=True)
        activations = [boundary.detach().requires_grad_() for boundary in stages.boundaries]
        part = _StageModule(steps, stage)
        super().__init__(
            part,
            stage,
            stages.total,
            steps._state.device,
            group=steps._state.mesh.group("pp"),
            input_args=activations[stage - 1] if stage else number,
            output_args=activations[stage] if stage < stages.total - 1 else loss,
        )
        self._steps, self._part = steps, part

    def forward_one_chunk(self, fwd_chunk_id: int, *args: Any, **kwargs: Any) -> Any:
        self._part.number = fwd_chunk_id
        with self._steps.action(self.stage_index, "F", fwd_chunk_id):
            return super().forward_one_chunk(fwd_chunk_id, *args, **kwargs)

    def backward_one_chunk(
        self, bwd_chunk_id: int, loss: Any = None, full_backward: bool = True, last_backward: bool = False
    ) -> None:
        with self._steps.action(self.stage_index, "B" if full_backward else "I", bwd_chunk_id):
            super().backward_one_chunk(bwd_chunk_id, loss, full_backward, last_backward)

    def backward_weight_one_chunk(self, bwd_chunk_id: int, last_backward: bool = False) -> None:
        with self._steps.action(self.stage_index, "W", bwd_chunk_id):
            super().backward_weight_one_chunk(bwd_chunk_id, last_backward)


def _sum_gradients(parameters: Iterable[nn.Parameter], group: ProcessGroup, average: int = 1) -> None:
    """Sum gradients over a group, and divide them."""
    gradients = [get_local_part(parameter.grad) for parameter in parameters if parameter.grad is not None]
    for gradient in gradients:
        if average > 1:
            gradient.div_(average)
        dist.all_reduce(gradient, group=group)
