"""Chooses the ranks to compare: the same rank of all runs, the one that matters most."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from msgspec.structs import replace as with_fields

from perfkit.analysis.compare.sides import LoadedSide
from perfkit.analysis.model.comparison import RankSteps
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import WHOLE_RANKS


class RankSelection(NamedTuple):
    """The runs with the trace of the rank that is compared, a sentence on which it is, and the steps of all ranks.

    The sentence and the steps are empty where no run has several ranks.
    """

    runs: tuple[LoadedSide, ...]
    note: str = ""
    steps: tuple[RankSteps, ...] = ()


def select_common_rank(loaded: Sequence[LoadedSide]) -> RankSelection:
    """Select the straggler, else the slowest rank, of the run with the longest traced step if all runs have it; else
    the first common rank; else the first rank of each run.
    """
    traced = [side for side in loaded if side.ranks]
    if len(traced) < 2 or all(len(side.ranks) == 1 for side in traced):
        return RankSelection(tuple(loaded))
    numbers = [{trace.rank for trace in side.ranks if trace.rank is not None} for side in traced]
    common = sorted(numbers[0].intersection(*numbers[1:]))
    slow = max(traced, key=lambda side: max(trace.step_s for trace in side.ranks))
    slowest = max(slow.ranks, key=lambda trace: trace.step_s)
    wanted = next((trace for trace in slow.ranks if trace.label == slow.straggler), slowest)
    if wanted.rank in common:
        rank = wanted.rank
        why = "the straggler" if wanted.label == slow.straggler else "the slowest rank"
        among = f", of its first {WHOLE_RANKS}" if len(slow.ranks) == WHOLE_RANKS else ""
        note = f"compares rank {rank} of each run, {why} of the run with the longest step{among}"
    elif common:
        rank = common[0]
        note = f"compares rank {rank} of each run, the first common rank"
    else:
        rank = None
        note = "no common rank: compares the first rank of each run"
    return RankSelection(
        tuple(_select_rank(side, rank) for side in loaded),
        note,
        tuple(
            RankSteps(rank=number, steps_s=tuple(_get_step_time(side, number) for side in loaded)) for number in common
        ),
    )


def _select_rank(run: LoadedSide, rank: int | None) -> LoadedSide:
    trace = _find_rank_trace(run, rank) or next(iter(run.ranks), None)
    if trace is None or run.side.trace is None:
        return run
    side = run.side
    if side.kind == "trace":
        side = with_fields(
            side,
            subject=trace.label if len(run.ranks) > 1 else "",
            device=trace.device,
            device_name=trace.device_name,
            ceilings=trace.ceilings,
            memory=trace.memory,
        )
    return replace(run, side=with_fields(side, trace=trace))


def _find_rank_trace(run: LoadedSide, rank: int | None) -> RankTrace | None:
    """The slowest of a rank's traces."""
    its = (trace for trace in run.ranks if rank is not None and trace.rank == rank)
    return max(its, key=lambda trace: trace.step_s, default=None)


def _get_step_time(run: LoadedSide, rank: int) -> float | None:
    trace = _find_rank_trace(run, rank)
    return trace.step_s if trace is not None else None
