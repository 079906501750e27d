"""From a RunSpec to a session that is ready to train, with the unmodified model measured on the way."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from time import perf_counter
from types import MappingProxyType

import msgspec
import psutil
import torch
from torch import nn

from perfkit.core.address_space import limit_address_space
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import ParityRule
from perfkit.core.record.quantity import Measurement, Quantity, QuantityOrigin, Unknown, make_measurement
from perfkit.core.record.rank_record import Flops, RunStatus, SetupCost, WorkloadFacts
from perfkit.core.spec import RunSpec
from perfkit.core.texts.error_text import format_first_line
from perfkit.cost.live_flops import average_counts, count_flops
from perfkit.devices.accelerator import get_accelerator, has_own_memory, is_cpu
from perfkit.instruments.clock import choose_clock
from perfkit.instruments.environment import add_fp32_settings, read_environment
from perfkit.instruments.facts.random_numbers import has_drawn_numbers, read_generator_states
from perfkit.instruments.facts.saved_tensors import measure_plain_saved_bytes
from perfkit.instruments.failure_status import classify_error
from perfkit.instruments.recorder import Recorder
from perfkit.instruments.sensors.process_memory import read_before_model
from perfkit.instruments.sensors.sensors import open_device_sensors
from perfkit.instruments.training.tensors import get_compute_dtype, get_torch_dtype
from perfkit.measure.rank.limits import MARGIN
from perfkit.measure.rank.loaded_batches import LoadedBatches
from perfkit.measure.rank.loaded_data import BatchPool, BatchSource, collect_batch_facts
from perfkit.measure.rank.session import TrainingSession
from perfkit.techniques.apply import apply_all
from perfkit.techniques.base.own_step import run_trial_step
from perfkit.techniques.base.rank_sharing import build_mesh
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.base.technique import explain_refusal
from perfkit.techniques.compose import compose_techniques
from perfkit.workloads.loaders import LoaderChanges
from perfkit.workloads.workload import (
    Batch,
    Workload,
    cast_model,
    count_samples,
    list_blocks,
    make_model,
    move_to_device,
)
from perfkit.workloads.workload_table import check_microbatches, load_workload

# Errors of models on a part of a batch (parts of a graph lack nodes that its edges name), or without a technique (some
# attention kernels take bf16 only).
_MODEL_ERRORS = (AssertionError, IndexError, KeyError, RuntimeError, TypeError, ValueError)

# Losses of a model whose parameters have few bits are compared with that precision: a few roundings a step.
_PARITY_EPSILONS = 8


def set_up_session(
    spec: RunSpec, device: torch.device, world: World, recorder: Recorder, report: Callable[[str], None]
) -> TrainingSession:
    """Build the workload, measure the unmodified model if evidence is requested, and apply the techniques."""
    if spec.launch.threads is not None:
        torch.set_num_threads(spec.launch.threads)
    here = read_environment(device)
    recorder.update(environment=here)
    techniques = compose_techniques(spec.techniques)
    report("building the model")
    torch.manual_seed(spec.seed)
    workload = load_workload(spec.workload, device=device.type)
    check_microbatches(workload, spec.accumulation)
    sensors = open_device_sensors(device)
    memory = read_before_model(device, sensors, world)
    start = perf_counter()
    dtype = get_torch_dtype(spec.dtype)
    model = cast_model(make_model(workload), dtype).to(device)
    loading = workload.make_loader is not None
    data = (
        _create_loaded_batches(spec, workload, world, LoaderChanges())
        if loading
        else _create_batch_pool(spec, workload, (world.rank,), device)
    )
    first = next(iter(data.step(0, 1)))
    if isinstance(data, LoadedBatches):
        data.close()
    model_cost = SetupCost(name="model", seconds=perf_counter() - start)
    recorder.update(
        setup=(model_cost,),
        workload=_collect_workload_facts(workload, model),
        process_memory=msgspec.structs.replace(memory, batches=_measure_batch_bytes(data)),
    )
    recorder.add_facts(collect_batch_facts(first))

    state = TrainState(
        workload=workload,
        model=model,
        device=device,
        world=world,
        compute_dtype=get_compute_dtype(spec.dtype, device),
        accumulation=spec.accumulation,
        non_blocking=not loading,  # as loops are written unless they were tuned
    )
    saved: dict[str, int] = {}
    if "evidence" in spec.passes:
        report("measuring the unmodified model")
        mesh = build_mesh(techniques, world, device)
        joined, samples = len(mesh.samples_of), count_samples(first)
        parts = math.prod(
            technique.count_batch_parts(samples, joined, mesh.size(technique.dimension)) for technique in techniques
        )
        batch = move_to_device(first, device)
        try:
            shapes = _list_shapes(data, spec)
            saved = _measure_reference(spec, state, batch, recorder, parts, shapes)
        except _MODEL_ERRORS as error:
            if reason := explain_refusal(error, techniques):
                raise UnavailableError(reason, id="skip.step") from error
            if not techniques:
                raise
            raised = format_first_line(error)
            if parts != 1 and _takes_whole_batch(spec, state, batch, recorder):
                raise UnavailableError(
                    f"the model of {workload.name} takes a whole batch, but not 1/{parts:g} of its first dimension: "
                    f"{raised}",
                    id="skip.batch_dimension",
                ) from error
            _record_model_flops(_compute_closed_form(spec, workload, f"raises {raised}"), state, recorder)
    torch.manual_seed(spec.seed + 1)  # the same random numbers in training whether or not the reference ran

    report("applying the techniques")
    try:
        applied = apply_all(techniques, state)
    except BaseException:
        state.close()  # techniques already applied may hold temporary files
        raise
    if has_own_memory(device):  # memory of the unmodified model and of trials is not the variant's
        get_accelerator(device).runtime.empty_cache()
    if loading:
        data = _create_loaded_batches(spec, workload, world, applied.state.loading)
        applied.state.on_close.append(data.close)
    elif applied.state.batches_of_ranks:
        data = _create_batch_pool(spec, workload, applied.state.batches_of_ranks, device)
        recorder.update(
            process_memory=msgspec.structs.replace(recorder.record.process_memory, batches=_measure_batch_bytes(data))
        )
    recorder.update(
        setup=(model_cost, *applied.setup),
        compute_dtype=applied.state.compute_dtype,
        environment=add_fp32_settings(here, device),  # the workload or a technique may have changed it
        parity=_relax_parity(spec.dtype, applied.parity),
        flops=_subtract_flops(recorder.record.flops, state.left_out_flops * spec.accumulation),
    )
    return TrainingSession(
        spec=spec,
        state=applied.state,
        techniques=applied.techniques,
        data=data,
        clock=choose_clock(device, applied.state.cycle),
        recorder=recorder,
        sensors=sensors,
        report=report,
        reference_saved=saved,
    )


def _create_batch_pool(spec: RunSpec, workload: Workload, ranks: Sequence[int], device: torch.device) -> BatchSource:
    dtype, pinned = get_torch_dtype(spec.dtype), has_own_memory(device)
    return BatchPool(workload, seed=spec.seed, ranks=ranks, dtype=dtype, pinned=pinned)


def _create_loaded_batches(spec: RunSpec, workload: Workload, world: World, loading: LoaderChanges) -> LoadedBatches:
    return LoadedBatches(workload, seed=spec.seed, rank=world.rank, dtype=get_torch_dtype(spec.dtype), loading=loading)


def _measure_batch_bytes(data: BatchSource) -> Quantity:
    """Measure the main memory of all batches."""
    loading = isinstance(data, LoadedBatches)
    kept = "loaded in every step" if loading else "batches of all steps, made before the first"
    return make_measurement(data.nbytes, "bytes", kept)


def _relax_parity(dtype: str, rule: ParityRule) -> ParityRule:
    """The techniques' rule, but never tighter than the parameters' dtype allows."""
    if dtype == "fp32":
        return rule
    relative = _PARITY_EPSILONS * torch.finfo(get_torch_dtype(dtype)).eps
    if rule.relative is None or rule.relative >= relative:
        return rule
    return ParityRule(relative=relative, basis=f"{_PARITY_EPSILONS} roundings of {dtype} parameters")


def _collect_workload_facts(workload: Workload, model: nn.Module) -> WorkloadFacts:
    return WorkloadFacts(
        unit=workload.unit,
        units_per_batch=workload.units_per_batch,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        model_flops_per_unit=workload.model_flops_per_unit,
        description=workload.description,
    )


def _list_shapes(data: BatchSource, spec: RunSpec) -> list[tuple[Batch, int]]:
    """A batch of each shape in the timed steps, with the number of such batches; none where they are loaded."""
    if not isinstance(data, BatchPool):
        return []
    batches = spec.schedule.timed * spec.accumulation
    return [(next(iter(data.step(index, 1))), count) for index, count in data.weigh_steps(batches, 1)]


def _measure_reference(
    spec: RunSpec,
    state: TrainState,
    batch: Batch,
    recorder: Recorder,
    parts: float = 1,
    shapes: Sequence[tuple[Batch, int]] = (),
) -> dict[str, int]:
    """Measure facts of the unmodified model, to which MFU and claims refer, and the bytes saved by each block.

    Saved bytes are of one of `parts` parts of the batch, as with the techniques; FLOPs are of the batch, or the mean of
    several `shapes`, each with its weight. A model that does not fit without a technique, or raises, has no such facts,
    and is measured with it all the same.
    """
    workload, model, device = state.workload, state.model, state.device

    samples = count_samples(batch)
    size = None if samples is None else samples / parts
    divides = parts != 1 and size is not None and size.is_integer()  # where it does not, techniques are refused
    microbatch = {name: part[: int(size)] for name, part in batch.items()} if divides and size else batch

    def forward(data: Batch) -> torch.Tensor:
        return state.loss(data) if workload.step is None else run_trial_step(state, data)

    def forward_and_backward(data: Batch) -> None:
        loss = forward(data)
        if workload.step is None:
            loss.backward()

    counted = "one forward and backward" if workload.step is None else "one step without its updates"
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    recorder.add_facts({"reference_parameter_bytes": float(parameters)})
    uncounted: dict[str, int] = {}
    saved: dict[str, int] = {}
    try:
        with _limit_memory(state):
            generators = read_generator_states(device)
            blocks = list_blocks(workload, model)
            saved = measure_plain_saved_bytes(model, lambda: forward(microbatch), device, blocks)
            recorder.add_facts({"reference_saved_tensor_bytes": float(sum(saved.values()))})
            recorder.add_facts({"random_forward": float(has_drawn_numbers(generators, device))})
            several = shapes if len(shapes) > 1 else [(batch, 1)]
            count = average_counts(
                [
                    (count_flops(partial(forward_and_backward, move_to_device(other, device))), weight)
                    for other, weight in several
                ]
            )
        model_flops: Quantity = Measurement(
            value=count.unmasked * spec.accumulation,
            unit="FLOP",
            how=QuantityOrigin.COUNTED,
            source=f"GEMMs, convolutions and attention of {counted} of the unmodified model"
            + (f", mean of {len(several)} shapes of batches" if len(several) > 1 else "")
            + count.convention,
        )
        uncounted = count.uncounted
    except (RuntimeError, MemoryError) as error:
        if classify_error(error) != RunStatus.OUT_OF_MEMORY:
            raise
        model_flops = _compute_closed_form(spec, workload, "does not fit in memory")
    _record_model_flops(model_flops, state, recorder, uncounted)
    return saved


def _record_model_flops(
    flops: Quantity, state: TrainState, recorder: Recorder, uncounted: Mapping[str, int] = MappingProxyType({})
) -> None:
    state.model.zero_grad(set_to_none=True)
    recorder.update(flops=Flops(model=flops, hardware=Unknown(reason="not counted yet"), uncounted={**uncounted}))


def _takes_whole_batch(spec: RunSpec, state: TrainState, batch: Batch, recorder: Recorder) -> bool:
    """True if the model takes the batch as it is."""
    try:
        _measure_reference(spec, state, batch, recorder)
    except _MODEL_ERRORS:
        return False
    return True


def _subtract_flops(flops: Flops | None, left_out: float) -> Flops | None:
    """The model's FLOPs without those that techniques took out of it."""
    if flops is None or not left_out or isinstance(flops.model, Unknown):
        return flops
    model = msgspec.structs.replace(
        flops.model,
        value=flops.model.value - left_out,
        source=f"{flops.model.source}, without FLOPs that techniques leave out",
    )
    return msgspec.structs.replace(flops, model=model)


def _limit_memory(state: TrainState) -> AbstractContextManager[None]:
    """Lets an allocation fail before the system has no memory left and kills processes: on a CPU nothing else would."""
    if not is_cpu(state.device):
        return nullcontext()
    return limit_address_space(int((1 - MARGIN) * psutil.virtual_memory().available / state.world.size))


def _compute_closed_form(spec: RunSpec, workload: Workload, why: str) -> Quantity:
    if workload.model_flops_per_unit is None:
        return Unknown(reason=f"the unmodified model {why}, and the workload has no closed form")
    return Measurement(
        value=workload.model_flops_per_unit * workload.units_per_batch * spec.accumulation,
        unit="FLOP",
        how=QuantityOrigin.MODELED,
        source=f"the workload's closed form, because the unmodified model {why}",
    )
