"""A variant's training step on fake tensors: what it would allocate, and for what. Nothing is computed or allocated."""

from contextlib import ExitStack
from typing import NamedTuple

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from perfkit.allocations import Allocations
from perfkit.errors import UnavailableError
from perfkit.instruments.memory.modules import marked_modules
from perfkit.instruments.memory.record import in_detail
from perfkit.instruments.memory.state import owners, watched_gradients
from perfkit.instruments.tensors import known_blocks, torch_dtype
from perfkit.instruments.trained import trained_of
from perfkit.measure.data import BatchPool
from perfkit.measure.step import train_step
from perfkit.plan.alone import Alone
from perfkit.plan.conversion import converts_fakes
from perfkit.plan.fake_memory import FakeMemory
from perfkit.plan.fake_ops import more_fake_ops
from perfkit.plan.fake_ranks import fake_ranks
from perfkit.spec import RunSpec
from perfkit.techniques.apply import apply_all
from perfkit.techniques.compose import compose
from perfkit.techniques.state import TrainState
from perfkit.workloads.table import check_microbatches, load_workload
from perfkit.workloads.workload import built_model, split_batch

SOURCE = "every storage of one step on fake tensors, after one that makes the optimizer's state"

_DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)
_UNSUPPORTED = (UnsupportedOperatorException, UnsupportedFakeTensorException)


class Rehearsed(NamedTuple):
    """The allocations of one step; `untried` are ops whose libraries take scratch memory that is not among them."""

    allocations: Allocations
    untried: tuple[str, ...]


def rehearse(spec: RunSpec) -> Rehearsed:
    """A step of the first rank of a run on a CPU.

    Raises:
        UnavailableError: a technique cannot act here, or the step cannot be done without values; with the op.
        UsageError: as a run does.
    """
    try:
        return _rehearse(spec)
    except _DATA_DEPENDENT as error:
        raise UnavailableError(f"{error.func} needs values, which a plan does not have: {_REMEDY}") from error
    except _UNSUPPORTED as error:
        raise UnavailableError(f"{error.args[0]} has no fake kernel: {_REMEDY}") from error


_REMEDY = "measure it with perfkit bench"


def _rehearse(spec: RunSpec) -> Rehearsed:
    device = torch.device("cpu")
    dtype = torch_dtype(spec.dtype)
    workload = load_workload(spec.workload, device=spec.launch.device)
    check_microbatches(workload, spec.accumulation)
    memory, alone = FakeMemory(), Alone()
    with ExitStack() as stack:
        world = stack.enter_context(fake_ranks(spec.launch.world_size))
        for context in (more_fake_ops(alone), FakeTensorMode(allow_non_fake_inputs=True), converts_fakes()):
            stack.enter_context(context)
        stack.enter_context(memory.recording(alone))
        model = built_model(workload).to(dtype=dtype)
        data = BatchPool(workload, seed=spec.seed, rank=world.rank, dtype=dtype, pinned=False)
        state = TrainState(workload=workload, model=model, device=device, world=world, compute_dtype=spec.dtype)
        stack.callback(state.close)
        state = apply_all(compose(spec.techniques), state).state

        def step(index: int) -> None:
            whole = data.step(index, spec.accumulation)
            train_step(state, [part for batch in whole for part in split_batch(batch, state.microbatches)], index)

        step(0)
        memory.begin()
        trained = trained_of(state)
        known = [*known_blocks(state)]
        known += memory.others(data.addresses() | {block.address for block in known})
        owned = owners(trained)
        with marked_modules(trained), watched_gradients(trained, memory.now) as gradients:
            step(1)
        recorded = memory.recorded
    recorded.ranges.sort(key=lambda mark: (mark.start_ns, -mark.end_ns))
    allocations = in_detail(recorded, device, known, owned, gradients, source=SOURCE)
    return Rehearsed(allocations, tuple(sorted(alone.untried)))
