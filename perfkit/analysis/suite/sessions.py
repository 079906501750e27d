"""Step times of the baselines by session: timings from different days are not comparable."""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from perfkit.analysis.model.suite import MeasuredSession
from perfkit.analysis.suite.estimate import estimate_over_processes
from perfkit.analysis.suite.runs import VariantRuns, get_step_times
from perfkit.store.layout import Suite


def summarize_sessions(
    suite: Suite, runs: Mapping[str, VariantRuns], baselines: Iterable[str]
) -> tuple[MeasuredSession, ...]:
    """The sessions with their runs, in order."""
    named = tuple(baselines)
    return tuple(
        _summarize_session(session.created_at, session.command, of_session, named)
        for session, of_session in zip(suite.sessions, split_by_session(suite, runs), strict=True)
    )


def split_by_session(suite: Suite, runs: Mapping[str, VariantRuns]) -> list[dict[str, VariantRuns]]:
    """The timed runs of each session, by variant."""
    begins = [*(session.first_repeat for session in suite.sessions), None]
    return [_select_repeats(runs, first, end) for first, end in pairwise(begins)]


def _summarize_session(
    created_at: str, command: str, runs: Mapping[str, VariantRuns], baselines: tuple[str, ...]
) -> MeasuredSession:
    steps = {name: runs[name].list_median_steps(get_step_times) for name in baselines if name in runs}
    return MeasuredSession(
        created_at=created_at,
        command=command,
        variants=tuple(name for name, variant in runs.items() if variant.runs),
        baseline_steps={
            name: estimate_over_processes(times, "s", "of this session") for name, times in steps.items() if times
        },
    )


def _select_repeats(runs: Mapping[str, VariantRuns], first: int | None, end: int | None) -> dict[str, VariantRuns]:
    """The timed runs of repeats from `first` to before `end`."""
    return {
        name: VariantRuns(
            name,
            tuple(run for run in variant.timed if (first or 0) <= run.repeat and (end is None or run.repeat < end)),
        )
        for name, variant in runs.items()
    }
