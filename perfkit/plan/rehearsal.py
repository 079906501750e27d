"""A variant's training step on fake tensors: what it would allocate, and for what. Nothing is computed or allocated."""

from contextlib import ExitStack, nullcontext
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
from perfkit.instruments.memory.profiler import Recorded
from perfkit.instruments.memory.record import in_detail
from perfkit.instruments.memory.state import owners, watched_gradients
from perfkit.instruments.tensors import known_blocks, torch_dtype
from perfkit.instruments.trained import trained_of
from perfkit.measure.data import BatchPool, Microbatches
from perfkit.measure.step import train_step
from perfkit.plan.alone import Alone
from perfkit.plan.conversion import converts_fakes
from perfkit.plan.cuda_dispatch import as_on_cuda
from perfkit.plan.cuda_scratch import CudaScratch
from perfkit.plan.fake_memory import FakeMemory
from perfkit.plan.fake_ops import more_fake_ops
from perfkit.plan.fake_ranks import fake_ranks
from perfkit.plan.step_ops import Issued, StepOps
from perfkit.spec import RunSpec
from perfkit.techniques.apply import apply_all
from perfkit.techniques.compose import compose
from perfkit.techniques.state import TrainState
from perfkit.workloads.table import check_microbatches, load_workload
from perfkit.workloads.workload import Batch, built_model, split_batch

SOURCE = "every storage of one step on fake tensors, after one that makes the optimizer's state"

_DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException)
_UNSUPPORTED = (UnsupportedOperatorException, UnsupportedFakeTensorException)


Change = tuple[int, int]  # an address, and the bytes allocated there; negative where they are freed


class Rehearsed(NamedTuple):
    """What a run of two steps allocates.

    Attributes:
        allocations: those of the second step.
        untried: ops whose libraries take scratch memory that is not among them.
        issued: the ops and collectives of the second step.
        before: every allocation and free from the model on until the second step.
        step: every one of that step.
        scratch: by CUDA's libraries the most that one op of theirs took meanwhile; it is among `step`, at `SCRATCH`.
    """

    allocations: Allocations
    untried: tuple[str, ...]
    issued: tuple[Issued, ...] = ()
    before: tuple[Change, ...] = ()
    step: tuple[Change, ...] = ()
    scratch: dict[str, int] = {}


def rehearse(spec: RunSpec, kind: str = "cpu") -> Rehearsed:
    """A step of the first rank of a run on a CPU, or as it is on a GPU (`cuda`).

    Raises:
        UnavailableError: a technique cannot act here, or the step cannot be done without values; with the op.
        UsageError: as a run does.
    """
    try:
        return _rehearse(spec, kind)
    except _DATA_DEPENDENT as error:
        raise UnavailableError(f"{error.func} needs values, which a plan does not have: {_REMEDY}") from error
    except _UNSUPPORTED as error:
        raise UnavailableError(f"{error.args[0]} has no fake kernel: {_REMEDY}") from error


_REMEDY = "measure it with perfkit bench"


def _rehearse(spec: RunSpec, kind: str) -> Rehearsed:
    device = torch.device("cpu")
    dtype = torch_dtype(spec.dtype)
    workload = load_workload(spec.workload, device=spec.launch.device)
    check_microbatches(workload, spec.accumulation)
    memory, alone = FakeMemory(), CudaScratch() if kind == "cuda" else Alone()
    with ExitStack() as stack:
        stack.enter_context(as_on_cuda() if kind == "cuda" else nullcontext())
        world = stack.enter_context(fake_ranks(spec.launch.world_size))
        for context in (more_fake_ops(alone), FakeTensorMode(allow_non_fake_inputs=True), converts_fakes()):
            stack.enter_context(context)
        stack.enter_context(memory.recording(alone))
        model = built_model(workload).to(dtype=dtype)
        before = [(block.address, block.size_bytes) for block in memory.others(())]
        memory.begin()
        data = BatchPool(workload, seed=spec.seed, rank=world.rank, dtype=dtype, pinned=False)
        state = TrainState(workload=workload, model=model, device=device, world=world, compute_dtype=spec.dtype)
        stack.callback(state.close)
        state = apply_all(compose(spec.techniques), state).state

        def step(index: int) -> None:
            whole = data.step(index, spec.accumulation)
            parts = [part for batch in whole for part in split_batch(batch, state.microbatches)]
            train_step(state, parts if kind == "cpu" else _on_device(parts), index)

        step(0)
        before += _changes(memory.recorded, data)
        memory.begin()
        trained = trained_of(state)
        known = [*known_blocks(state)]
        known += memory.others(data.addresses() | {block.address for block in known})
        owned = owners(trained)
        with marked_modules(trained), watched_gradients(trained, memory.now) as gradients, StepOps() as ops:
            step(1)
        recorded = memory.recorded
    recorded.ranges.sort(key=lambda mark: (mark.start_ns, -mark.end_ns))
    allocations = in_detail(recorded, device, known, owned, gradients, source=SOURCE)
    scratch = alone.most if isinstance(alone, CudaScratch) else {}
    return Rehearsed(
        allocations, tuple(sorted(alone.untried)), tuple(ops.issued), tuple(before), _changes(recorded, data), scratch
    )


def _on_device(parts: list[Batch]) -> Microbatches:
    """Microbatches that are copied to a device as the step comes to them."""
    return Microbatches(len(parts), lambda: ({name: tensor.clone() for name, tensor in part.items()} for part in parts))


def _changes(recorded: Recorded, data: BatchPool) -> tuple[Change, ...]:
    """What was allocated and freed, without the batches on the host."""
    host = data.addresses()
    return tuple((event.address, event.size) for event in recorded.allocations if event.address not in host)
