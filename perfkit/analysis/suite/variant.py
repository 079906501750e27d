"""One row of the report: everything known of a variant, put together from its runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from perfkit.analysis.model.estimate import Difference, Estimate, Missing
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.analysis.model.suite import CompileSummary, Parity, Variant
from perfkit.analysis.suite.attached import loop_of
from perfkit.analysis.suite.compare import compare
from perfkit.analysis.suite.compile import compile_summary
from perfkit.analysis.suite.energy import energy_of
from perfkit.analysis.suite.engagement import check_claims, engaged
from perfkit.analysis.suite.estimate import over_processes
from perfkit.analysis.suite.parity import NOT_COMPARABLE, parity
from perfkit.analysis.suite.passes import Passes
from perfkit.analysis.suite.runs import VariantRuns, largest, step_series, total
from perfkit.analysis.trace.efficiency import Peak, peak, peak_of_mix, utilisation
from perfkit.analysis.trace.roofs import roofs_of
from perfkit.analysis.trace.tables import with_longest_rows
from perfkit.analysis.trace.trace_flops import flops_of_traces, peak_of_traces
from perfkit.cost.call import Unit
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.record import Flops, Quantity, Samples, Status, Unknown, measured, value_of


@dataclass(frozen=True)
class Subject:
    """A variant's runs with what its instrumented passes showed."""

    runs: VariantRuns
    passes: Passes


def build_variant(
    subject: Subject, baseline: Subject | None, *, is_baseline: bool, ceilings: DeviceCeilings | None
) -> Variant:
    """The row of a variant; `baseline` is what it is compared with, None for none."""
    runs, passes = subject.runs, subject.passes
    records = runs.records
    status, reason = runs.outcome
    why = f"{status}: {reason}" if status != Status.OK else "no timed steps were recorded"
    steps = runs.steps(step_series)
    step_time = _estimate(steps, why, "s", _clock(runs))
    cpu_time = _estimate(runs.steps(lambda samples: samples.cpu_s), why, "s", "CPU time of the process, all threads")
    flops, limit = _flops(subject, why), _peak(subject, ceilings)
    step_s = step_time.value if isinstance(step_time, Estimate) else None
    account = passes.account
    allocated = _allocated(runs, account)
    claims = check_claims(
        [] if not records else records[0].claims,
        passes.facts,
        None if baseline is None or not baseline.passes.facts else baseline.passes.facts[0],
        {} if not records else records[0].fact_notes,
    )
    difference = _difference(runs, baseline, step_series)
    memory = [record.memory for record in records if record.memory is not None]
    energy = energy_of(runs, why)
    return Variant(
        name=runs.name,
        techniques=runs.techniques,
        world_size=runs.world_size,
        is_baseline=is_baseline,
        status=status,
        reason=reason,
        traceback=runs.traceback,
        runs=tuple(run.path for run in runs.runs),
        step_time=step_time,
        cpu_time=cpu_time,
        throughput=_throughput(runs, steps, why),
        throughput_unit=_unit(runs),
        peak_allocated=allocated,
        peak_reserved=largest((each.reserved for each in memory), why),
        rss=largest((each.rss for each in memory), why),
        model_flops=flops.model,
        hardware_flops=flops.hardware,
        mfu=utilisation(flops.model, step_s, limit),
        hfu=utilisation(flops.hardware, step_s, limit),
        mfu_peak=limit.text if isinstance(limit, Peak) else limit.reason,
        energy_per_step=energy.step,
        energy_per_unit=energy.unit,
        power=energy.power,
        difference=difference,
        cpu_difference=_difference(runs, baseline, lambda samples: samples.cpu_s),
        memory_ratio=_memory_ratio(allocated, baseline),
        parity=_parity(runs, baseline, is_baseline),
        engaged=engaged(claims),
        claims=claims,
        setup=() if not records else records[0].setup,
        compile=_compile(subject, baseline, step_s, difference),
        step_samples=runs.samples(lambda record: record.samples),
        warmup_samples=runs.samples(lambda record: record.warmup),
        losses=() if not records else records[0].losses,
        memory=account,
        warnings=runs.warnings,
        trace=None if passes.trace is None else with_longest_rows(passes.trace),
        loop=loop_of(records, None if runs.main is None else runs.main.ranks[0].live),
    )


def _estimate(steps: Mapping[int, float], why: str, unit: str, source: str) -> Estimate | Missing:
    return over_processes(list(steps.values()), unit, source) if steps else Missing(reason=why)


def _clock(runs: VariantRuns) -> str:
    on_device = any(rank.record.samples.device_s for run in runs.runs for rank in run.ranks)
    clock = "device events" if on_device else "perf_counter_ns"
    slowest = ", the slowest rank's" if runs.world_size > 1 else ""
    if runs.attached:
        return f"median of the timed steps ({clock}{slowest})"
    return f"median over processes of each process's median step ({clock}{slowest})"


def _throughput(runs: VariantRuns, steps: Mapping[int, float], why: str) -> Estimate | Missing:
    """Units of all ranks and microbatches of a step / its time."""
    if not steps:
        return Missing(reason=why)
    units = runs.units_per_step
    if isinstance(units, str):
        return Missing(reason=units)
    assert runs.main is not None
    if runs.attached:
        told = runs.units_source
        source = f"{units:,} per step{f' ({told})' if told else ''}, all ranks / step time"
        return over_processes([units / seconds for seconds in steps.values()], _unit(runs), source)
    source = f"{units:,} per step ({runs.world_size} ranks x {runs.main.spec.accumulation} microbatches) / step time"
    return over_processes([units / seconds for seconds in steps.values()], _unit(runs), source)


def _unit(runs: VariantRuns) -> str:
    return f"{runs.unit}/s" if runs.unit else ""


def _flops(subject: Subject, why: str) -> Flops:
    """FLOPs of a step over all ranks: counted while they ran, for a loop that perfkit was attached to those traced."""
    if subject.runs.attached:
        return flops_of_traces(subject.passes.traces, subject.runs.world_size)
    flops = [record.flops for record in subject.runs.records]
    return Flops(
        model=total((each.model for each in flops if each is not None), "FLOPs were not counted: " + why),
        hardware=total((each.hardware for each in flops if each is not None), "FLOPs were not counted: " + why),
    )


def _peak(subject: Subject, ceilings: DeviceCeilings | None) -> Peak | Unknown:
    runs = subject.runs
    if not runs.records:
        return Unknown(reason="no run left a record")
    first = runs.records[0]
    roofs = roofs_of(ceilings, first.environment)
    if runs.attached:
        return peak_of_traces(subject.passes.traces, roofs, runs.world_size)
    if first.flops is not None and first.flops.by_dtype:
        computed = {(Unit.MATRIX, dtype): amount for dtype, amount in first.flops.by_dtype.items()}
        return peak_of_mix(roofs, computed, runs.world_size)
    return peak(roofs, first.compute_dtype, runs.world_size)


def _allocated(runs: VariantRuns, account: MemoryAccount | None) -> Quantity:
    """The allocator's own peak over the timed steps where it keeps one, else that of the memory pass."""
    recorded = [record.memory.allocated for record in runs.records if record.memory is not None]
    quantity = largest(recorded, "no run recorded its memory")
    if isinstance(quantity, Unknown) and account is not None:
        return measured(account.peak_bytes, "bytes", account.source)
    if isinstance(quantity, Unknown) and runs.attached and recorded:
        return Unknown(reason="no step's allocations were recorded, and the allocator itself tells no peak")
    return quantity


def _difference(
    runs: VariantRuns, baseline: Subject | None, series: Callable[[Samples], tuple[float, ...]]
) -> Difference | None:
    if baseline is None:
        return None
    return compare(baseline.runs.name, baseline.runs.steps(series), runs.steps(series))


def _memory_ratio(allocated: Quantity, baseline: Subject | None) -> float | None:
    ours = value_of(allocated)
    theirs = None if baseline is None else value_of(_allocated(baseline.runs, baseline.passes.account))
    return None if ours is None or not theirs else ours / theirs


_PARITY_ORDER = ("differs", "unknown", NOT_COMPARABLE, "within tolerance", "equal")


def _parity(runs: VariantRuns, baseline: Subject | None, is_baseline: bool) -> Parity:
    """The parity of the rank that is worst off."""
    if is_baseline and baseline is None:
        return Parity(verdict="equal", max_relative=0.0, tolerance=None, basis="it is the baseline", steps=0)
    if runs.main is None:
        return Parity(verdict="unknown", max_relative=None, tolerance=None, basis="no run left a record", steps=0)
    reference = None if baseline is None else baseline.runs.main
    theirs = {} if reference is None else {rank.record.rank: rank.record for rank in reference.ranks}
    spec = None if reference is None else reference.spec
    verdicts = [parity(record, runs.main.spec, theirs.get(record.rank), spec) for record in runs.records]
    return min(verdicts, key=lambda each: (_PARITY_ORDER.index(each.verdict), -(each.max_relative or 0.0)))


def _compile(
    subject: Subject, baseline: Subject | None, step_s: float | None, difference: Difference | None
) -> CompileSummary | None:
    records = subject.runs.records
    if not records:
        return None
    reference = () if baseline is None else baseline.runs.records
    theirs = [] if baseline is None else list(baseline.runs.steps(step_series).values())
    return compile_summary(
        records[0].facts,
        records[0].fact_notes,
        records[0].setup,
        reference[0].setup if reference else None,
        median(theirs) - step_s if theirs and step_s is not None else None,
        decided=difference is None or difference.verdict != "inconclusive",
    )
