"""The ranks of a run in its timed steps, from their records."""

from collections.abc import Sequence
from statistics import median

import numpy as np

from perfkit.analysis.model.fleet import CPU_TIME, STEP, StepGrid, TimedRank
from perfkit.analysis.ranks.grid import build_step_grid
from perfkit.analysis.suite.runs import VariantRuns, get_step_times
from perfkit.core.record import StepSamples
from perfkit.store.suite_reader import StoredRun


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
