"""The origin of each figure of the report."""

from collections.abc import Iterable, Sequence

from perfkit.analysis.model.estimate import MedianEstimate, Provenance
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.trace.trace_provenance import describe_quantity
from perfkit.core.record.environment import Environment
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.ceilings.ceiling import CeilingKind, DeviceCeilings


def list_provenance(
    variants: Sequence[Variant], environment: Environment | None, ceilings: DeviceCeilings | None
) -> tuple[Provenance, ...]:
    """One entry for each figure that some variant has, and for the ceilings."""
    attached = any(variant.loop is not None for variant in variants)
    entries = [
        *_describe_estimate("step time", (variant.step_time for variant in variants), alone=attached),
        *_describe_estimate("CPU time", (variant.cpu_time for variant in variants), alone=attached),
        *_describe_estimate("throughput", (variant.throughput for variant in variants), alone=attached),
        *describe_quantity("peak memory allocated", (variant.peak_allocated for variant in variants)),
        *describe_quantity("peak memory reserved", (variant.peak_reserved for variant in variants)),
        *describe_quantity("resident memory", (variant.rss for variant in variants)),
        *describe_quantity("model FLOPs", (variant.model_flops for variant in variants)),
        *describe_quantity("hardware FLOPs", (variant.hardware_flops for variant in variants)),
        *describe_quantity("MFU", (variant.mfu for variant in variants)),
        *describe_quantity("HFU", (variant.hfu for variant in variants)),
        *describe_quantity("energy and power", (variant.energy_per_step for variant in variants)),
        *_describe_methods(variants),
        *_describe_ceilings(environment, ceilings),
    ]
    return tuple(entries)


def _describe_estimate(figure: str, values: Iterable[object], *, alone: bool) -> list[Provenance]:
    """Describe an estimate, with the number of processes unless each variant is a single one (`alone`)."""
    known = [value for value in values if isinstance(value, MedianEstimate)]
    if not known:
        return []
    processes = sorted({len(value.per_process) for value in known})
    count = " to ".join(str(number) for number in {processes[0]: None, processes[-1]: None})
    word = "process" if count == "1" else "processes"
    of = "" if alone else f"; {count} {word} per variant"
    return [Provenance(figure=figure, how=known[0].how, detail=f"{known[0].source}{of}")]


def _describe_methods(variants: Sequence[Variant]) -> list[Provenance]:
    entries = []
    if any(variant.difference is not None for variant in variants):
        entries.append(
            Provenance(
                figure="difference",
                how="derived",
                detail=(
                    "geometric mean of process ratios paired by repeat, 95 % t-interval on logarithms; no "
                    "correction for the number of comparisons"
                ),
            )
        )
    if any(variant.time_split for variant in variants):
        entries.append(
            Provenance(
                figure="time split, operators, roofline",
                how="modeled",
                detail=(
                    "op times of the traced steps; FLOPs and compulsory bytes by formula from recorded shapes, not "
                    f"from counters{_describe_slow_down(variants)}"
                ),
            )
        )
    entries += _describe_backends(variants)
    if any(variant.memory is not None for variant in variants):
        entries.append(
            Provenance(
                figure="memory account",
                how="measured",
                detail=(
                    "replayed allocation events; parameters, gradients and optimizer state by address, activations "
                    "by lifetime from forward into backward"
                ),
            )
        )
    return entries


_BACKENDS = {"kineto": "Kineto", "cupti_monitor": "CUPTI's monitor"}


def _describe_backends(variants: Sequence[Variant]) -> list[Provenance]:
    """What recorded GPUs for torch.profiler, and why it was not CUPTI's monitor; nothing on other devices."""
    used = dict.fromkeys(
        (variant.trace_backend, variant.trace_backend_reason) for variant in variants if variant.trace_backend
    )
    # Kineto without a reason is what records as a rule.
    texts = [
        _BACKENDS.get(name, name) + (f" ({reason})" if reason else "")
        for name, reason in used
        if reason or name != "kineto"
    ]
    return [Provenance(figure="trace", how="measured", detail=f"recorded by {'; '.join(texts)}")] if texts else []


def _describe_slow_down(variants: Sequence[Variant]) -> str:
    """The slowdown of a step under the profiler, in words."""
    ratios = {variant.name: ratio for variant in variants if (ratio := _compute_traced_ratio(variant)) is not None}
    slower = [f"{name} {ratio:.2f}x" for name, ratio in ratios.items() if ratio >= 1]
    shorter = [name for name, ratio in ratios.items() if ratio < 1]
    text = f"; profiler slowdown: {', '.join(slower)}" if slower else ""
    return f"{text}; no profiler slowdown: {', '.join(shorter)}" if shorter else text


def _compute_traced_ratio(variant: Variant) -> float | None:
    """Traced over timed step time: by its own clock for an attached loop, from the trace for a bench."""
    if variant.traced_step is None or variant.traced_step.timed_ratio is None:
        return None
    watched = variant.loop.slowdowns if variant.loop is not None else ()
    by_clock = [slowdown.ratio for slowdown in watched if slowdown.instrument == "trace"]
    return by_clock[0] if by_clock else 1 / variant.traced_step.timed_ratio


def _describe_ceilings(environment: Environment | None, ceilings: DeviceCeilings | None) -> list[Provenance]:
    if ceilings is None:
        return [Provenance(figure="ceilings", how="unknown", detail="none known for this machine")]
    measured = [ceiling for ceiling in ceilings.ceilings if ceiling.kind == CeilingKind.MEASURED]
    low = sum(ceiling.confidence == "low" for ceiling in measured)
    parts = [f"{len(measured)} measured on {ceilings.device_name} {ceilings.measured_at}".strip()]
    days = sorted({ceiling.measured_at[:10] for ceiling in measured if ceiling.measured_at})
    if len(days) > 1:
        parts.append(f"the best of {', '.join(days)}")
    if exceeded := sum(bool(ceiling.exceeded_by) for ceiling in measured):
        parts.append(f"{exceeded} exceeded by measured work")
    if low:
        parts.append(f"{low} with low confidence")
    parts.append(f"{len(ceilings.ceilings) - len(measured)} from the datasheet")
    if environment is not None and environment.threads is not None and is_cpu(ceilings.device):
        parts.append(f"for {environment.threads} thread{'' if environment.threads == 1 else 's'}")
    return [Provenance(figure="ceilings", how="measured" if measured else "datasheet", detail="; ".join(parts))]
