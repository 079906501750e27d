"""Builds one row of the report: everything known of a variant."""

from collections.abc import Iterator, Sequence
from statistics import fmean, median

import numpy as np
from msgspec.structs import replace

from perfkit.analysis.compare.device_clocks import summarize_clocks
from perfkit.analysis.compare.rank_environments import compare_rank_environments
from perfkit.analysis.model.fleet import CPU_TIME, STEP, CollectiveVolume, StepGrid, TimedRank
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.prediction import Prediction
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.model.trace import CollectiveRow, RankTrace
from perfkit.analysis.ranks.grid import build_step_grid
from perfkit.analysis.suite.attached_loop import build_loop
from perfkit.analysis.suite.cost import compute_useful_tokens
from perfkit.analysis.suite.engagement import is_engaged, is_engaged_in_part
from perfkit.analysis.suite.runs import VariantRuns, get_step_times
from perfkit.analysis.suite.variant_figures import VariantFigures
from perfkit.analysis.suite.variant_verdicts import VariantData, Verdicts, get_emulation_reason
from perfkit.analysis.trace.op_tables import keep_longest_rows
from perfkit.core.record.rank_record import ExpertLoad, RankRecord
from perfkit.core.record.step_samples import StepSamples
from perfkit.cost.calls.collective import CollectiveType, classify_collective
from perfkit.store.stacks import SampledStacks, read_stacks
from perfkit.store.suite_reader import StoredRun

_FACTORS = "bytes_of_factors"
_RECORDED = "recorded_collectives"
_COMPLETE = 0.99  # of the bytes in theory: traced steps are a mean


def compute_volumes(runs: VariantRuns, trace: RankTrace | None) -> tuple[CollectiveVolume, ...]:
    """A row for each kind of collective that the first rank asked for, or that its trace shows."""
    facts = runs.records[0].facts if runs.records else {}
    rows: dict[str, list[CollectiveRow]] = {}
    for row in trace.collectives if trace is not None and trace.steps else ():
        if row.calls:
            rows.setdefault(_get_asked_kind(row), []).append(row)
    volumes = []
    for kind in CollectiveType:
        asked, least = (facts.get(f"collective_{what}:{kind}") for what in ("bytes", "volume"))
        if not asked and kind not in rows:
            continue
        volume = _build_volume(kind, asked, least, rows.get(kind, []))
        if _RECORDED in facts:
            volume = _drop_partial_trace(volume)
        volumes.append(_add_factors(volume, facts.get(_FACTORS)) if kind is CollectiveType.ALL_REDUCE else volume)
    return tuple(volumes)


def _drop_partial_trace(volume: CollectiveVolume) -> CollectiveVolume:
    """Without the traced bytes where they are fewer than in theory: the profiler has not seen all of the collectives,
    such as those that gloo's threads started."""
    traced, least = volume.traced_bytes, volume.theoretical_bytes
    is_partial = traced is not None and least is not None and traced < _COMPLETE * least and not volume.backend_kind
    return replace(volume, traced_bytes=None) if is_partial else volume


def _add_factors(volume: CollectiveVolume, sent: float | None) -> CollectiveVolume:
    """The all-reduces with what PowerSGD sent: gloo's threads start those of its factors, which neither perfkit nor the
    profiler sees."""
    if not sent or not volume.message_bytes or volume.message_bytes >= sent:
        return volume
    least = volume.theoretical_bytes
    return replace(
        volume,
        message_bytes=sent,
        theoretical_bytes=None if least is None else least * sent / volume.message_bytes,
        traced_bytes=None,
    )


def _get_asked_kind(row: CollectiveRow) -> str:
    """The kind of collective that the program called; the backend may have run another."""
    called = (
        {classify_collective(name.rpartition("::")[2]) for name in row.requested_kind.split(", ")}
        if row.requested_kind
        else set()
    )
    return str(called.pop()) if len(called) == 1 else row.kind


def _build_volume(
    kind: CollectiveType, asked: float | None, least: float | None, rows: Sequence[CollectiveRow]
) -> CollectiveVolume:
    carried = [row.volume_bytes for row in rows]
    wall_s, exposed_s = sum(row.wall_s for row in rows), sum(row.exposed_s for row in rows)
    return CollectiveVolume(
        kind=str(kind),
        calls=sum(row.calls for row in rows),
        message_bytes=asked,
        theoretical_bytes=least,
        traced_bytes=None if not rows or None in carried else sum(amount for amount in carried if amount is not None),
        backend_kind=", ".join(sorted({row.kind for row in rows if row.kind != kind})),
        seconds=sum(row.seconds for row in rows),
        exposed_s=exposed_s,
        hidden_share=1 - exposed_s / wall_s if wall_s > 0 else None,
    )


def summarize_timed_ranks(runs: VariantRuns) -> tuple[TimedRank, ...]:
    """The medians of each rank over all timed runs; none for a single rank, or with a rank missing."""
    whole = _find_complete_runs(runs)
    if not whole:
        return ()
    ranks = []
    for rank in range(runs.world_size):
        samples = [run.ranks[rank].record.samples for run in whole]
        steps = [step for series in samples for step in get_step_times(series)]
        cpu = [step for series in samples for step in series.cpu_s]
        environment = whole[0].ranks[rank].record.environment
        ranks.append(
            TimedRank(
                rank=rank,
                host="" if environment is None else environment.hostname,
                step_s=median(steps),
                cpu_s=median(cpu) if cpu else None,
                steps=len(steps),
            )
        )
    return tuple(ranks)


def build_timed_grid(runs: VariantRuns) -> StepGrid | None:
    """The timed steps of all runs, one process after another, numbered from 0."""
    whole = _find_complete_runs(runs)
    if not whole:
        return None
    ranks = range(runs.world_size)
    figures = {}
    for name, series in ((STEP, get_step_times), (CPU_TIME, _get_cpu_times)):
        rows = [[step for run in whole for step in series(run.ranks[rank].record.samples)] for rank in ranks]
        if len({len(row) for row in rows}) == 1 and rows[0]:
            figures[name] = np.array(rows)
    steps = max((values.shape[1] for values in figures.values()), default=0)
    complete = {name: values for name, values in figures.items() if values.shape[1] == steps}
    return build_step_grid([f"rank {rank}" for rank in ranks], range(steps), complete)


def _get_cpu_times(samples: StepSamples) -> Sequence[float]:
    return samples.cpu_s


def _find_complete_runs(runs: VariantRuns) -> list[StoredRun]:
    """The timed runs in which all ranks have equally many steps."""
    if runs.world_size < 2:
        return []
    return [
        run
        for run in runs.timed
        if run.complete and len({len(get_step_times(rank.record.samples)) for rank in run.ranks}) == 1
        if get_step_times(run.ranks[0].record.samples)
    ]


def sum_expert_loads(records: Sequence[RankRecord]) -> tuple[ExpertLoad, ...]:
    """Sum the routing of all ranks' batches, layer by layer.

    Nothing where ranks have other layers than the first: then there is no whole.
    """
    layers = {tuple(load.layer for load in record.expert_loads) for record in records}
    if len(layers) != 1:
        return ()
    return tuple(map(_merge_loads, zip(*(record.expert_loads for record in records), strict=True)))


def _merge_loads(ranks: Sequence[ExpertLoad]) -> ExpertLoad:
    losses = [load.auxiliary_loss for load in ranks if load.auxiliary_loss is not None]
    return ExpertLoad(
        layer=ranks[0].layer,
        tokens=sum(load.tokens for load in ranks),
        routed_tokens=tuple(map(sum, zip(*(load.routed_tokens for load in ranks), strict=True))),
        accepted_tokens=tuple(map(sum, zip(*(load.accepted_tokens for load in ranks), strict=True))),
        dropped_tokens=sum(load.dropped_tokens for load in ranks),
        auxiliary_loss=fmean(losses) if losses else None,
    )


WAIT = "data_wait_share"


def build_variant(
    subject: VariantData, verdicts: Verdicts, *, is_baseline: bool, prediction: Prediction | None = None
) -> Variant:
    """The row of a variant."""
    runs, passes, figures = subject.runs, subject.passes, subject.figures
    records = runs.records
    status, reason, reason_id = runs.outcome
    return Variant(
        name=runs.name,
        techniques=runs.techniques,
        world_size=runs.world_size,
        is_baseline=is_baseline,
        status=status,
        reason=reason,
        reason_id=reason_id,
        traceback=runs.traceback,
        rank_waits=runs.waits,
        runs=tuple(run.path for run in runs.runs),
        step_time=figures.step_time,
        cpu_time=figures.cpu_time,
        throughput=figures.throughput,
        throughput_unit=f"{runs.unit}/s" if runs.unit else "",
        peak_allocated=figures.allocated,
        peak_reserved=figures.reserved,
        rss=figures.rss,
        model_flops=figures.flops.model,
        hardware_flops=figures.flops.hardware,
        mfu=figures.mfu,
        hfu=figures.hfu,
        mfu_peak=figures.peak,
        energy_per_step=figures.energy.step,
        energy_per_unit=figures.energy.unit,
        power=figures.energy.power,
        units_per_step=runs.units_per_step if isinstance(runs.units_per_step, int) else None,
        comparison_unit=verdicts.compared_per,
        difference=verdicts.difference,
        cpu_difference=verdicts.cpu_difference,
        memory_ratio=verdicts.memory_ratio,
        parity=verdicts.parity,
        active=False if verdicts.copies else is_engaged(verdicts.claims),
        active_in_part=not verdicts.copies and is_engaged_in_part(verdicts.claims),
        emulation_reason=get_emulation_reason(records),
        claims=verdicts.claims,
        copies=verdicts.copies,
        setup=() if not records else records[0].setup,
        compile=verdicts.compile,
        step_samples=runs.get_slowest_samples(lambda record: record.samples),
        warmup_samples=runs.get_slowest_samples(lambda record: record.warmup),
        losses=() if not records else records[0].losses,
        memory=passes.account,
        warnings=runs.warnings,
        trace=None if passes.trace is None else keep_longest_rows(passes.trace),
        data_wait_share=max((record.facts[WAIT] for record in records if WAIT in record.facts), default=None),
        prediction=prediction,
        ranks=summarize_timed_ranks(runs),
        rank_differences=compare_rank_environments(
            {f"rank {record.rank}": record.environment for record in records if record.environment is not None}
        ),
        steps_by_rank=build_timed_grid(runs),
        fleet=passes.fleet,
        volumes=compute_volumes(runs, passes.trace) if runs.world_size > 1 else (),
        expert_loads=sum_expert_loads(records),
        pipeline=passes.pipeline,
        trace_backend=records[0].trace_backend if records else "",
        trace_backend_reason=records[0].trace_backend_reason if records else "",
        clocks=summarize_clocks(rank.record for run in runs.runs for rank in run.ranks),
        loop=_build_loop(runs, figures),
    )


def _build_loop(runs: VariantRuns, figures: VariantFigures) -> LoopAnalysis | None:
    """The attached loop, with what its useful tokens take; None for perfkit's own."""
    live = None if runs.main is None else runs.main.ranks[0].live
    loop = build_loop(runs.records, live, _read_rank_stacks(runs))
    if loop is None:
        return None
    return replace(loop, useful=compute_useful_tokens(loop, figures.step_time, figures.energy.step))


def _read_rank_stacks(runs: VariantRuns) -> Iterator[SampledStacks]:
    """Read the stack samples of each rank of the main run."""
    for rank in () if runs.main is None else runs.main.ranks:
        if rank.stacks is not None:
            yield read_stacks(rank.stacks)
