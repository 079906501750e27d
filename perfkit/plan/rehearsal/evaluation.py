"""Rehearses an evaluation step after the training step: forward without gradients, and the logits it returns."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from perfkit.core.allocations import Allocations, InitialBlock
from perfkit.core.errors import UnknownParameterError
from perfkit.core.record.quantity import Unknown
from perfkit.core.spec import RunSpec
from perfkit.cost.torch_dispatch import tree_leaves
from perfkit.instruments.memory.memory_recording import label_recording
from perfkit.instruments.memory.module_marks import mark_modules
from perfkit.instruments.memory.profiler_events import RecordedEvents
from perfkit.instruments.memory.training_state import find_owners, watch_gradients
from perfkit.instruments.range_marks import mark_phase, mark_step
from perfkit.instruments.training.tensors import list_known_blocks
from perfkit.instruments.training.trained_models import get_trained_models
from perfkit.plan.rehearsal.batches import make_batches
from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.step_ops import Issued, StepOps
from perfkit.techniques.base.state import TrainState
from perfkit.workloads.model_loss import call_loss
from perfkit.workloads.workload import Batch
from perfkit.workloads.workload_table import load_workload

SOURCE = "every storage of an evaluation step on fake tensors, after a training step"

_LABELS = re.compile("label|target")

_STEP = 2  # after the two steps of training


class RehearsedEvaluation(NamedTuple):
    """An evaluation step.

    Attributes:
        allocations: its allocations, with the blocks held before it.
        recorded: the events since the training step (making the batch), and those of the step.
        host: addresses of the batches in main memory.
        issued: its ops and collectives.
        logits_bytes: of the model's output without its loss, for the batch of one rank.
        labels_bytes: of the batch's labels, which a loop that computes metrics keeps, too.
        inputs_bytes: of the whole batch of one rank, labels included.
        copies: number of ranks that evaluate other samples, whose logits are gathered.
        units: tokens or samples of all ranks.
    """

    allocations: Allocations
    recorded: tuple[RecordedEvents, RecordedEvents]
    host: frozenset[int]
    issued: tuple[Issued, ...]
    logits_bytes: int
    copies: int
    units: int
    labels_bytes: int = 0
    inputs_bytes: int = 0


def rehearse_evaluation(
    state: TrainState,
    spec: RunSpec,
    batch_size: int,
    memory: FakeMemory,
    ops: StepOps,
    copy: Callable[[Batch], Batch],
    trained_on: frozenset[int],
) -> Callable[[], RehearsedEvaluation] | Unknown:
    """Rehearse an evaluation step of `batch_size` samples, inside of the contexts of a rehearsal.

    `copy` brings a batch to the device; `trained_on` are addresses of the training batches. The result is labeled when
    it is called, outside of these contexts.
    """
    if state.engine is not None or state.own_forward is not None or state.workload.step is not None:
        return Unknown(reason="evaluation of steps with an engine, a pipeline or several models is not planned")
    try:
        workload = load_workload(spec.workload.replace_params(batch_size=batch_size), device=state.acts_on.type)
    except UnknownParameterError:
        return Unknown(reason=f"{spec.workload.label} takes no batch_size, of which an evaluation batch would be")
    memory.begin()
    ranks = state.batches_of_ranks or (state.world.rank,)
    data = make_batches(workload, spec, ranks, steps=1)
    (made,) = data.step(0, 1)
    between = memory.recorded
    memory.begin()
    trained = get_trained_models(state)
    known: list[InitialBlock] = [*list_known_blocks(state)]
    known += memory.list_other_blocks(data.addresses() | trained_on | {block.address for block in known})
    owned = find_owners(trained)
    training = state.model.training
    with (
        mark_modules(trained),
        watch_gradients(trained, memory.now) as gradients,
        _watch_outputs(state.model) as outputs,
        ops,
        mark_step(_STEP),
        torch.no_grad(),
    ):
        state.model.eval()
        with mark_phase("data"):
            batch = copy(made)
        sizes = {name: tensor.nbytes for name, tensor in batch.items()}
        with mark_phase("forward"), state.enter_forward_contexts():
            result = call_loss(state.workload, state.called[""], batch)
        del result, batch
    state.model.train(training)
    recorded = memory.recorded
    memory.begin()  # what is freed when the rehearsal ends is not of the step

    def label() -> RehearsedEvaluation:
        recorded.ranges.sort(key=lambda mark: (mark.start_ns, -mark.end_ns))
        allocations = label_recording(recorded, state.device, known, owned, gradients, source=SOURCE)
        return RehearsedEvaluation(
            allocations=allocations,
            recorded=(between, recorded),
            host=data.addresses(),
            issued=tuple(ops.issued),
            logits_bytes=outputs[-1] if outputs else 0,
            copies=spec.launch.world_size // len(ranks),
            units=workload.units_per_batch * spec.launch.world_size,
            labels_bytes=sum(size for name, size in sizes.items() if _LABELS.search(name)),
            inputs_bytes=sum(sizes.values()),
        )

    return label


@contextmanager
def _watch_outputs(model: nn.Module) -> Iterator[Sequence[int]]:
    """The bytes of each output of the model that a loop can keep: all but the loss."""
    sizes: list[int] = []

    def add(_module: nn.Module, _args: object, output: object) -> None:
        kept = (leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.dim())
        sizes.append(sum(leaf.numel() * leaf.element_size() for leaf in kept if leaf.is_floating_point()))

    handle = model.register_forward_hook(add)
    try:
        yield sizes
    finally:
        handle.remove()
