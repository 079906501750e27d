"""The figures of a variant: step time, compute and memory, without comparisons."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.suite.estimate import estimate_over_processes
from perfkit.analysis.suite.passes import PassResults
from perfkit.analysis.suite.runs import VariantRuns, get_largest_over_ranks, get_step_times, sum_over_ranks
from perfkit.analysis.trace.roofline.flops_utilization import PeakRate, compute_utilization, find_peak, find_peak_of_mix
from perfkit.analysis.trace.roofline.roofs import Roofs, build_roofs
from perfkit.core.record.quantity import Measurement, Quantity, Unknown, make_measurement
from perfkit.core.record.rank_record import Flops, RankRecord, RunStatus
from perfkit.core.units import format_si
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.devices.ceilings.ceiling import Ceiling, DeviceCeilings


def sum_trace_flops(traces: Sequence[RankTrace], world_size: int) -> Flops:
    """FLOPs of a step over all ranks, unknown with the reason where a rank's are not known."""
    return Flops(
        model=_sum_ranks([_get_step_flops(trace, trace.model_flops) for trace in traces], world_size),
        hardware=_sum_ranks([_get_step_flops(trace, trace.hardware_flops) for trace in traces], world_size),
        masked=sum(trace.masked_flops for trace in traces),
    )


def find_trace_peak(traces: Sequence[RankTrace], roofs: Roofs, world_size: int) -> PeakRate | Unknown:
    """The peak for the dtypes of the first trace with GEMMs."""
    telling = next((trace for trace in traces if trace.flops_by_precision), None)
    if telling is None:
        return Unknown(reason="GEMM dtypes unknown in all traces")
    computed = {(ComputeUnit(part.unit), part.dtype): part.flops for part in telling.flops_by_precision}
    return find_peak_of_mix(roofs, computed, world_size)


def _get_step_flops(trace: RankTrace, flops: Quantity) -> Quantity:
    return flops if trace.steps else Unknown(reason="FLOPs per step unknown: no whole step in the trace")


def _sum_ranks(flops: Sequence[Quantity], world_size: int) -> Quantity:
    if not flops:
        return Unknown(reason="FLOPs of a user's loop come from its trace, and no step was traced")
    if len(flops) < world_size:
        return Unknown(reason=f"only {len(flops)} of {world_size} ranks were traced")
    return sum_over_ranks(flops, "")


@dataclass(frozen=True)
class EnergyFigures:
    """Energy per step (J) and per token or sample (`J/token`), and mean power (W), over all ranks."""

    step: Quantity
    unit: Quantity
    power: Quantity


def compute_energy(runs: VariantRuns, why: str) -> EnergyFigures:
    """Compute energy from the records; `why` is the reason where there are none."""
    step = _combine_processes(runs, lambda record: record.energy, why)
    return EnergyFigures(step, _divide_by_units(runs, step), _combine_processes(runs, lambda record: record.power, why))


def _combine_processes(runs: VariantRuns, pick: Callable[[RankRecord], Quantity], why: str) -> Quantity:
    """The median over the processes that know it; the first one's reason where none does."""
    quantities = [sum_over_ranks([pick(rank.record) for rank in run.ranks], why) for run in runs.runs if run.complete]
    known = [quantity for quantity in quantities if isinstance(quantity, Measurement)]
    if not known:
        return next(iter(quantities), Unknown(reason=why))
    if len(known) == 1:
        return known[0]
    values = sorted(measurement.value for measurement in known)
    first = known[0]
    spread = f"{format_si(values[0], first.unit)} to {format_si(values[-1], first.unit)}"
    source = f"{first.source}; median of {len(known)} processes, {spread}"
    return Measurement(value=median(values), unit=first.unit, how=first.how, source=source)


def _divide_by_units(runs: VariantRuns, step: Quantity) -> Quantity:
    units = runs.units_per_step
    if isinstance(step, Unknown):
        return step
    if isinstance(units, str):
        return Unknown(reason=units)
    unit = f"J/{runs.unit.removesuffix('s') or 'unit'}"
    source = f"energy per step / {units:,} {runs.unit or 'units'}"
    return Measurement(value=step.value / units, unit=unit, how=step.how, source=source)


@dataclass(frozen=True)
class VariantFigures:
    """`steps` are the medians of each timed run; `find_peak` returns the peak for utilization or the reason for none,
    and `refuted` the measured ceilings that the steps exceeded."""

    steps: Sequence[float]
    step_time: MedianEstimate | MissingEstimate
    cpu_time: MedianEstimate | MissingEstimate
    throughput: MedianEstimate | MissingEstimate
    allocated: Quantity
    reserved: Quantity
    rss: Quantity
    flops: Flops
    mfu: Quantity
    hfu: Quantity
    peak: str
    refuted: tuple[Ceiling, ...]
    energy: EnergyFigures


def compute_figures(runs: VariantRuns, passes: PassResults, ceilings: DeviceCeilings | None) -> VariantFigures:
    """The figures of a variant's runs, each unknown with the reason where it is not known."""
    status, reason, _ = runs.outcome
    why = f"{status}: {reason}" if status != RunStatus.OK else "no timed steps were recorded"
    steps, cpu_steps = runs.list_median_steps(get_step_times), runs.list_median_steps(lambda samples: samples.cpu_s)
    step_time = _make_estimate(steps, why, "s", _describe_clock(runs))
    flops, limit = _count_flops(runs, passes, why), _find_peak(runs, passes, ceilings)
    step_s = step_time.value if isinstance(step_time, MedianEstimate) else None
    used = compute_utilization(flops, step_s, limit)
    memory = [record.memory for record in runs.records if record.memory is not None]
    return VariantFigures(
        steps=steps,
        step_time=step_time,
        cpu_time=_make_estimate(cpu_steps, why, "s", "process CPU time, all threads"),
        throughput=_estimate_throughput(runs, steps, why),
        allocated=_get_peak_allocated(runs, passes.account),
        reserved=get_largest_over_ranks((peaks.reserved for peaks in memory), why),
        rss=get_largest_over_ranks((peaks.rss for peaks in memory), why),
        flops=flops,
        mfu=used.mfu,
        hfu=used.hfu,
        peak=limit.text if isinstance(limit, PeakRate) else limit.reason,
        refuted=used.refuted,
        energy=compute_energy(runs, why),
    )


def _make_estimate(steps: Sequence[float], why: str, unit: str, source: str) -> MedianEstimate | MissingEstimate:
    return estimate_over_processes(steps, unit, source) if steps else MissingEstimate(reason=why)


def _describe_clock(runs: VariantRuns) -> str:
    on_device = any(rank.record.samples.device_s for run in runs.runs for rank in run.ranks)
    clock = "device events" if on_device else "perf_counter_ns"
    slowest = ", slowest rank" if runs.world_size > 1 else ""
    if runs.attached:
        return f"median of the timed steps ({clock}{slowest})"
    cycle = int(max((record.facts.get("steps_of_a_cycle", 1.0) for record in runs.records), default=1.0))
    levelled = f", each the mean of a {cycle}-step cycle" if cycle > 1 else ""
    return f"median over processes of the median step ({clock}{slowest}{levelled})"


def _estimate_throughput(runs: VariantRuns, steps: Sequence[float], why: str) -> MedianEstimate | MissingEstimate:
    """Units of all ranks and microbatches of a step / its time."""
    if not steps:
        return MissingEstimate(reason=why)
    units = runs.units_per_step
    if isinstance(units, str):
        return MissingEstimate(reason=units)
    assert runs.main is not None
    if runs.attached:
        units_source = runs.units_source
        source = f"{units:,} per step{f' ({units_source})' if units_source else ''}, all ranks / step time"
        return estimate_over_processes([units / seconds for seconds in steps], f"{runs.unit}/s", source)
    source = f"{units:,} per step ({runs.world_size} ranks x {runs.main.spec.accumulation} microbatches) / step time"
    return estimate_over_processes([units / seconds for seconds in steps], f"{runs.unit}/s", source)


def _count_flops(runs: VariantRuns, passes: PassResults, why: str) -> Flops:
    """FLOPs of a step over all ranks: counted while they ran, for a loop that perfkit was attached to those traced."""
    if runs.attached:
        if any(record.attached_loop is not None and record.attached_loop.shapes_changed for record in runs.records):
            changed = Unknown(reason="inputs change in shape: FLOPs of traced steps are not those of timed ones")
            return Flops(model=changed, hardware=changed)
        return sum_trace_flops(passes.traces, runs.world_size)
    flops = [record.flops for record in runs.records]
    return Flops(
        model=sum_over_ranks((count.model for count in flops if count is not None), "FLOPs not counted: " + why),
        hardware=sum_over_ranks((count.hardware for count in flops if count is not None), "FLOPs not counted: " + why),
        masked=sum(count.masked for count in flops if count is not None),
    )


def _find_peak(runs: VariantRuns, passes: PassResults, ceilings: DeviceCeilings | None) -> PeakRate | Unknown:
    if not runs.records:
        return Unknown(reason="no run left a record")
    first = runs.records[0]
    roofs = build_roofs(ceilings, first.environment)
    if runs.attached:
        return find_trace_peak(passes.traces, roofs, runs.world_size)
    if first.flops is not None and first.flops.by_dtype:
        computed = {(ComputeUnit.MATRIX, dtype): amount for dtype, amount in first.flops.by_dtype.items()}
        return find_peak_of_mix(roofs, computed, runs.world_size)
    return find_peak(roofs, first.compute_dtype, runs.world_size)


def _get_peak_allocated(runs: VariantRuns, account: MemoryAccount | None) -> Quantity:
    """The allocator's own peak over the timed steps where it keeps one, else that of the memory pass."""
    recorded = [record.memory.allocated for record in runs.records if record.memory is not None]
    quantity = get_largest_over_ranks(recorded, "no run recorded memory")
    if isinstance(quantity, Unknown) and account is not None:
        return make_measurement(account.peak_bytes, "bytes", account.source)
    if isinstance(quantity, Unknown) and runs.attached and recorded:
        return Unknown(reason="no allocations of a step were recorded, and the allocator reports no peak")
    return quantity
