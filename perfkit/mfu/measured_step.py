"""A measured step for an audit: of a run folder or a trace, as perfkit analyzes it."""

from typing import Any, NamedTuple

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline.analyze import analyze
from perfkit.core.errors import UsageError
from perfkit.core.record.quantity import Measurement, Quantity
from perfkit.core.spec import WorkloadSpec, parse_workload
from perfkit.store.named_variant import split_variant
from perfkit.workloads.models.architectures import ARCHITECTURES

_TOKENS = "tokens"
_NAMES = ("gpt", "hf", "resnet", "moe", *ARCHITECTURES)


class MeasuredStep(NamedTuple):
    """A step, all ranks together.

    `model_flops` and `hardware_flops` are FLOPs of the step by perfkit's count of ops. `workload` is None where it is
    not recorded, `tokens` too; `dtype` is that of most matrix products, "" if unknown. `trains` says that it has a
    backward pass, None where that is unknown.
    """

    label: str
    step_s: float
    gpus: int
    device_name: str
    dtype: str
    tokens: int | None
    workload: WorkloadSpec | None
    model_flops: float | None
    hardware_flops: float | None
    mfu: Quantity
    hfu: Quantity
    trains: bool | None


def measure_step(source: str, device: str | None = None) -> MeasuredStep:
    """The step of a run folder (`FOLDER@VARIANT` of several variants) or a trace.

    `device` is the catalog's id of the trace's GPU, for a trace that does not name it.

    Raises:
        UsageError: neither, several variants, or no steps.
    """
    result = analyze(source)
    if isinstance(result, TraceAnalysis):
        if device is not None:
            result = analyze(source, device=device)
        return _read_trace(source, result)
    if isinstance(result, Analysis):
        return _read_variant(source, result)
    raise UsageError(f"{source}: no run and no trace: perfkit mfu takes a folder of perfkit bench or run, or a trace")


def _read_trace(source: str, result: TraceAnalysis) -> MeasuredStep:
    trace: RankTrace = result.traces[0]
    if not trace.steps:
        raise UsageError(f"{source}: no steps were found in the trace; give --step with --tokens-per-step instead")
    return MeasuredStep(
        label=f"{source}, {trace.label}{_describe_ranks(trace)}, mean of {len(trace.steps)} traced steps",
        step_s=trace.step_s,
        gpus=max(1, len(trace.devices)),
        device_name=trace.device_name,
        dtype=trace.matrix_dtype,
        tokens=None,
        workload=None,
        model_flops=_get_value(trace.model_flops),
        hardware_flops=_get_value(trace.hardware_flops),
        mfu=trace.mfu,
        hfu=trace.hfu,
        trains=trace.trains,
    )


def _describe_ranks(trace: RankTrace) -> str:
    """The ranks of which the trace has one: its tokens are those of this rank."""
    return f" of {trace.world_size}" if trace.world_size is not None and trace.world_size > 1 else ""


def _read_variant(source: str, result: Analysis) -> MeasuredStep:
    variant = _select_variant(source, result)
    if not isinstance(variant.step_time, MedianEstimate):
        raise UsageError(f"{source}: {variant.name} has no timed steps: {variant.step_time.reason}")
    trace = variant.traced_step
    return MeasuredStep(
        label=f"{source}, {variant.name}, median timed step",
        step_s=variant.step_time.value,
        gpus=variant.world_size,
        device_name=_get_device_name(result),
        dtype="" if trace is None else trace.matrix_dtype,
        tokens=variant.units_per_step if variant.throughput_unit.startswith(_TOKENS) else None,
        workload=_read_workload(result.workload),
        model_flops=_get_value(variant.model_flops),
        hardware_flops=_get_value(variant.hardware_flops),
        mfu=variant.mfu,
        hfu=variant.hfu,
        trains=True,
    )


def _select_variant(source: str, result: Analysis) -> Variant:
    _, name = split_variant(source)
    chosen = [variant for variant in result.variants if variant.name == name] or list(result.variants)
    if len(chosen) != 1:
        names = ", ".join(variant.name for variant in chosen)
        raise UsageError(f"{source} has several variants: name one as {source}@VARIANT, of {names}")
    return chosen[0]


def _get_device_name(result: Analysis) -> str:
    return result.environment.device_name if result.environment is not None else ""


def _read_workload(label: str) -> WorkloadSpec | None:
    """The workload of a suite; None for an attached loop, which has a script in its place."""
    try:
        return parse_workload(label, _NAMES)
    except UsageError:
        return None


def _get_value(quantity: Any) -> float | None:
    return quantity.value if isinstance(quantity, Measurement) else None
