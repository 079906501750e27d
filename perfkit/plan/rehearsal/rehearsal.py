"""Rehearses a variant's training step on fake tensors: records its allocations without computing anything."""

from collections.abc import Hashable, Mapping
from contextlib import ExitStack, nullcontext
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch.optim import Adam, AdamW, Optimizer

from perfkit.core.allocations import Allocations
from perfkit.core.note import Note
from perfkit.core.record.quantity import Unknown
from perfkit.core.spec import RunSpec
from perfkit.cost.torch_fakes import FakeTensorMode
from perfkit.devices.catalog.catalog import CatalogEntry
from perfkit.devices.machine.fp32_precision import read_fp32_settings
from perfkit.instruments.memory.memory_recording import label_recording
from perfkit.instruments.memory.module_marks import mark_modules
from perfkit.instruments.memory.profiler_events import ProfiledAllocation, RecordedEvents
from perfkit.instruments.memory.training_state import find_owners, watch_gradients
from perfkit.instruments.training.tensors import (
    collect_parameter_facts,
    get_torch_dtype,
    list_known_blocks,
)
from perfkit.instruments.training.trained_models import get_trained_models
from perfkit.measure.rank.loaded_data import Microbatches, collect_batch_facts, make_microbatches
from perfkit.measure.rank.train_step import train_step
from perfkit.plan.rehearsal.batches import Batches, make_batches, pair_with_real_batches
from perfkit.plan.rehearsal.compiled_code import compile_without_kernels
from perfkit.plan.rehearsal.compiled_updates import fuse_updates
from perfkit.plan.rehearsal.cuda_dispatch import patch_cuda_dispatch
from perfkit.plan.rehearsal.evaluation import RehearsedEvaluation, rehearse_evaluation
from perfkit.plan.rehearsal.fake_memory import SCRATCH, FakeMemory
from perfkit.plan.rehearsal.fake_overrides import (
    convert_fakes,
    copy_fakes,
    forget_tables,
    patch_linear,
    patch_transformers,
    register_fake_ops,
    subclass_fakes,
)
from perfkit.plan.rehearsal.fake_tensor_errors import name_failures
from perfkit.plan.rehearsal.first_step import rehearse_first_step
from perfkit.plan.rehearsal.garbage import collect_on_request
from perfkit.plan.rehearsal.inplace_gradients import add_gradients_in_place
from perfkit.plan.rehearsal.libraries.cuda_scratch import CudaScratch
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe, ProbedOp
from perfkit.plan.rehearsal.module_locator import ModuleLocator
from perfkit.plan.rehearsal.op_watcher import cost_watched_ops
from perfkit.plan.rehearsal.random_states import record_random_states
from perfkit.plan.rehearsal.ranks.fake_deepspeed import list_optimizer_parameters, patch_deepspeed, uses_deepspeed
from perfkit.plan.rehearsal.ranks.fake_ranks import UsedGroups, simulate_ranks
from perfkit.plan.rehearsal.saved_state import SavedState, measure_saved_state
from perfkit.plan.rehearsal.sparse.index_values import IndexValues, has_sparse_gradients
from perfkit.plan.rehearsal.sparse.sparse_gradients import SparseGradients
from perfkit.plan.rehearsal.step_ops import Issued, StepOps
from perfkit.plan.rehearsal.strip_tensor_data import strip_tensor_data
from perfkit.plan.rehearsal.technique_planning import select_planned_techniques
from perfkit.plan.rehearsal.value_reads import ValueReads
from perfkit.plan.target.fake_disk import skip_disk_writes, watch_pages
from perfkit.plan.target.fake_host import FakeHost
from perfkit.techniques.activations.paged_optimizer import get_local_optimizer
from perfkit.techniques.apply import apply_all
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.parallel.pipeline_schedules import BUBBLE
from perfkit.trace.model import COMPILED_GRAPH
from perfkit.workloads.workload import Batch, cast_model, list_blocks, make_model
from perfkit.workloads.workload_table import check_microbatches, load_workload

SOURCE = "every storage of one step on fake tensors, after one that creates the optimizer state"

Change = tuple[int, int]  # an address and its allocated bytes, negative if freed

# Ops probed in this process: plans of one workload have the same shapes.
_TRIED: dict[Hashable, ProbedOp] = {}


class RehearsedStep(NamedTuple):
    """The allocations of a run of two steps.

    Attributes:
        allocations: allocations of the second step.
        untried: ops whose libraries' scratch memory is missing.
        issued: the ops and collectives of the second step.
        groups: ranks of the process groups in use, by name.
        assumptions: assumptions, one line each.
        setup: the model's allocations, and all allocations and frees while techniques are applied.
        before: all allocations and frees from there until the second step.
        step: all allocations and frees of that step.
        graphed: places in `before` and in `step` of allocations in the pool of CUDA graphs.
        streams: streams of allocations in another than the default one, by place in `before` and in `step`.
        scratch: maximum scratch memory of one op by CUDA library; included in `step`, at `SCRATCH`.
        parameters: parameters of the model before sharding.
        trainable: parameters that the workload does not freeze.
        adam: True if every optimizer is torch's Adam or AdamW.
        facts: bytes of parameters by dtype and sizes of the batch, as a worker records them.
        compute_dtype: dtype of the products.
        compiled: True if a part of the step is compiled code.
        optimizers: the classes of all optimizers.
        blocks: number of repeated blocks of the workload.
        batches_bytes: bytes of the batches that a bench keeps in main memory.
        bubble_share: theoretical idle share of a pipeline's forward and backward.
        unit: unit of throughput, `tokens` or `samples`.
        units: units of a step on all ranks.
        held_bytes: of the blocks that are held between steps.
        saved: what a checkpoint saves.
        evaluation: the evaluation step after it; None if none was asked for.
        first: allocations of the first step; `before` are its allocations and frees.
    """

    allocations: Allocations
    untried: tuple[str, ...]
    assumptions: tuple[Note, ...] = ()
    issued: tuple[Issued, ...] = ()
    groups: Mapping[str, int] = MappingProxyType({})
    setup: tuple[Change, ...] = ()
    before: tuple[Change, ...] = ()
    step: tuple[Change, ...] = ()
    graphed: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    streams: tuple[Mapping[int, int], Mapping[int, int]] = (MappingProxyType({}), MappingProxyType({}))
    scratch: dict[str, int] = {}
    parameters: int = 0
    trainable: int = 0
    adam: bool = False
    facts: dict[str, float] = {}
    compute_dtype: str = ""
    compiled: bool = False
    optimizers: tuple[str, ...] = ()
    blocks: int = 0
    batches_bytes: int = 0
    bubble_share: float | Unknown = 0.0
    unit: str = ""
    units: int = 0
    held_bytes: int = 0
    saved: SavedState = SavedState()
    evaluation: RehearsedEvaluation | Unknown | None = None
    first: Allocations | None = None


def rehearse_step(spec: RunSpec, gpu: CatalogEntry | None = None, eval_batch_size: int | None = None) -> RehearsedStep:
    """Rehearse a step of the first rank of a run, on a CPU or as on a cataloged GPU.

    With `eval_batch_size`, an evaluation step of so many samples follows.

    Raises:
        UnavailableError: a technique cannot act here or be planned, or the step cannot be done without values; with the
            op and the module.
        UsageError: as a run does.
    """
    device = torch.device("cpu")
    acts_on = device if gpu is None else torch.device("cuda")
    dtype = get_torch_dtype(spec.dtype)
    workload = load_workload(spec.workload, device=acts_on.type)
    check_microbatches(workload, spec.accumulation)
    techniques, remarks = select_planned_techniques(spec.techniques)
    places = ModuleLocator()
    values, indices = ValueReads(places), IndexValues()
    memory, alone, host = (
        FakeMemory(values.record_read),
        OpScratchProbe(_TRIED) if gpu is None else CudaScratch(_TRIED),
        FakeHost(),
    )
    groups = UsedGroups()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with ExitStack() as stack:
        stack.enter_context(name_failures(places, techniques))
        collect_garbage = stack.enter_context(collect_on_request())
        stack.enter_context(nullcontext() if gpu is None else patch_cuda_dispatch(gpu))
        world = stack.enter_context(simulate_ranks(spec.launch.world_size))
        stores = skip_disk_writes(), host.skip_copies()
        tensors = convert_fakes(), copy_fakes(), subclass_fakes(), patch_linear()
        for context in (*stores, register_fake_ops(alone), mode, *tensors, forget_tables()):
            stack.enter_context(context)
        if uses_deepspeed(techniques):
            stack.enter_context(patch_deepspeed())
        host_updates = any(technique.updates_on_host() for technique in techniques)
        if host_updates:
            from perfkit.plan.rehearsal.offloaded_shards import offload_shards  # FSDP2, which others do not need

            stack.enter_context(offload_shards(memory, host))
        compiled = any(technique.compiles() for technique in techniques)
        if compiled:
            stack.enter_context(compile_without_kernels(as_gpu=gpu is not None))
        sparse = SparseGradients(indices, on_gpu=gpu is not None)
        stack.enter_context(memory.record_allocations(alone, groups.record_call, sparse))
        if gpu is None:  # a GPU's memory holds no state of the host's generator
            stack.enter_context(record_random_states(memory))
        stack.enter_context(add_gradients_in_place())
        stack.enter_context(fuse_updates(memory, eagerly_as_told=gpu is None))
        model = places.model = cast_model(strip_tensor_data(make_model(workload), mode), dtype)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        trainable = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
        stack.enter_context(patch_transformers())
        setup = [(block.address, block.size_bytes) for block in memory.list_other_blocks(())]
        memory.begin()
        state = TrainState(
            workload=workload,
            model=model,
            device=device,
            world=world,
            planned_for=acts_on,
            compute_dtype=spec.dtype,
        )
        stack.callback(state.close)
        blocks = len(list_blocks(workload, model))
        state = apply_all(techniques, state).state
        collect_garbage()  # what techniques tried may be in cycles of references
        setup += ((event.address, event.size) for event in memory.recorded.allocations)
        ranks = state.batches_of_ranks or (world.rank,)
        data = make_batches(workload, spec, ranks, steps=2)
        if has_sparse_gradients(state.model):
            for fake, real in pair_with_real_batches(data, workload, spec, ranks, steps=2):
                indices.add_batch(fake, real)
        memory.begin()  # batches, and what they are made of, are on the host

        def step(index: int) -> None:
            parts = make_microbatches(data, index, spec.accumulation, state.microbatches)
            train_step(state, parts if gpu is None else _copy_microbatches(parts), index)

        label_first = rehearse_first_step(step, state, memory, data, compiled=compiled)
        collect_garbage()
        facts = {**collect_parameter_facts([state.model]), **collect_batch_facts(data.step(0, 1)[0])}
        before = list_changes(memory.recorded, data.addresses())
        is_graphed = gpu is not None and any(technique.records_graphs() for technique in techniques)
        graphed_before = _find_graphed(memory.recorded, data) if is_graphed else frozenset()
        streams_before = _find_streams(memory, data)
        memory.begin()
        trained = get_trained_models(state)
        known = [*list_known_blocks(state)]
        known += list_optimizer_parameters(trained.optimizers, known)
        known = [block for block in known if block.address not in memory.host]
        host.pageable_bytes = memory.host.sum_state_bytes(trained.optimizers)
        known += memory.list_other_blocks(data.addresses() | {block.address for block in known})
        owned = find_owners(trained)
        make_ops = partial(
            StepOps,
            None if gpu is None else read_fp32_settings(acts_on),  # as the program and its techniques have set it
            turns_images=gpu is not None and gpu.vendor == "NVIDIA",
            on_cpu=gpu is None,
            replays=is_graphed,
            host_updates=host_updates,
        )
        ops = make_ops()
        host.told = ops.record_copy
        with (
            mark_modules(trained),
            watch_gradients(trained, memory.now) as gradients,
            watch_pages(ops.record_page),
            cost_watched_ops(ops),
        ):
            step(1)
        recorded = memory.recorded
        saved = measure_saved_state(trained, parameters, trainable)
        label = None
        if eval_batch_size is not None:
            eval_ops = make_ops()
            host.told = eval_ops.record_copy
            label = rehearse_evaluation(state, spec, eval_batch_size, memory, eval_ops, _copy_batch, data.addresses())
    recorded.ranges.sort(key=lambda mark: (mark.start_ns, -mark.end_ns))
    allocations = label_recording(recorded, device, known, owned, gradients, source=SOURCE)
    scratch = alone.most if isinstance(alone, CudaScratch) else {}
    return RehearsedStep(
        allocations=allocations,
        untried=tuple(sorted(alone.untried)),
        assumptions=(*remarks, *values.assumptions(), *indices.list_notes(), *host.list_notes()),
        issued=tuple(ops.issued),
        groups=groups.ranks,
        setup=tuple(setup),
        before=before,
        step=list_changes(recorded, data.addresses()),
        graphed=(graphed_before, _find_graphed(recorded, data) if is_graphed else frozenset()),
        streams=(streams_before, _find_streams(memory, data)),
        scratch=scratch,
        parameters=parameters,
        trainable=trainable,
        adam=all(map(_is_plain_adam, map(get_local_optimizer, trained.optimizers))),
        facts=facts,
        compute_dtype=state.compute_dtype,
        compiled=compiled,
        optimizers=tuple(sorted({type(each).__name__ for each in trained.optimizers})),
        blocks=blocks,
        batches_bytes=data.nbytes,
        bubble_share=_get_bubble_share(state),
        unit=workload.unit,
        units=workload.units_per_batch * spec.accumulation * spec.launch.world_size,
        held_bytes=sum(block.size_bytes for block in known),
        saved=saved,
        evaluation=label() if callable(label) else label,
        first=label_first(),
    )


def _get_bubble_share(state: TrainState) -> float | Unknown:
    if BUBBLE in state.facts or BUBBLE not in state.fact_notes:
        return state.facts.get(BUBBLE, 0.0)
    return Unknown(reason=f"no theoretical bubble for this pipeline: {state.fact_notes[BUBBLE]}")


def _copy_microbatches(parts: Microbatches) -> Microbatches:
    """Copy microbatches to a device as the step reaches them."""
    return Microbatches(len(parts), lambda: map(_copy_batch, parts))


def _copy_batch(batch: Batch) -> Batch:
    return {name: tensor.clone() for name, tensor in batch.items()}


def list_changes(recorded: RecordedEvents, host: frozenset[int]) -> tuple[Change, ...]:
    """Allocations and frees, without the batches at these addresses of the host."""
    return tuple((event.address, event.size) for event in _list_events(recorded, host))


def _list_events(recorded: RecordedEvents, host: frozenset[int]) -> list[ProfiledAllocation]:
    return [event for event in recorded.allocations if event.address not in host]


def _find_streams(memory: FakeMemory, data: Batches) -> dict[int, int]:
    """Streams of allocations in another than the default one, by place among the changes."""
    streams = memory.side_streams
    changes = _list_events(memory.recorded, data.addresses()) if streams else []
    return {place: streams[event.time_ns] for place, event in enumerate(changes) if event.time_ns in streams}


def _find_graphed(recorded: RecordedEvents, data: Batches) -> frozenset[int]:
    """Places among the changes of allocations that compiled graphs make, scratch memory excepted."""
    changes = _list_events(recorded, data.addresses())
    calls = [(each.start_ns, each.end_ns) for each in recorded.ranges if each.name.startswith(COMPILED_GRAPH)]
    return frozenset(
        place
        for place, event in enumerate(changes)
        if event.size > 0 and event.address != SCRATCH and any(start < event.time_ns < end for start, end in calls)
    )


def _is_plain_adam(optimizer: Optimizer) -> bool:
    """True if the state has two tensors per parameter; amsgrad has a third, the largest second moment."""
    return type(optimizer) in (Adam, AdamW) and not any(group["amsgrad"] for group in optimizer.param_groups)
