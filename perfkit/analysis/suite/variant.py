"""Builds one row of the report: everything known of a variant."""

from collections.abc import Iterator

from perfkit.analysis.model.prediction import Prediction
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.suite.attached_loop import build_loop
from perfkit.analysis.suite.engagement import is_engaged
from perfkit.analysis.suite.expert_loads import sum_expert_loads
from perfkit.analysis.suite.ranks import build_timed_grid, summarize_timed_ranks
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.suite.variant_verdicts import VariantData, Verdicts, get_emulation_reason
from perfkit.analysis.suite.volumes import compute_volumes
from perfkit.analysis.trace.op_tables import keep_longest_rows
from perfkit.store.stacks import SampledStacks, read_stacks

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
        active=is_engaged(verdicts.claims),
        emulation_reason=get_emulation_reason(records),
        claims=verdicts.claims,
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
        steps_by_rank=build_timed_grid(runs),
        fleet=passes.fleet,
        volumes=compute_volumes(runs, passes.trace) if runs.world_size > 1 else (),
        expert_loads=sum_expert_loads(records),
        pipeline=passes.pipeline,
        loop=build_loop(records, None if runs.main is None else runs.main.ranks[0].live, _read_rank_stacks(runs)),
    )


def _read_rank_stacks(runs: VariantRuns) -> Iterator[SampledStacks]:
    """Read the stack samples of each rank of the main run."""
    for rank in () if runs.main is None else runs.main.ranks:
        if rank.stacks is not None:
            yield read_stacks(rank.stacks)
