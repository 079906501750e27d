"""The improvements that could make a step shorter, and by how much."""

from typing import NamedTuple

from perfkit.analysis.findings.tables.host import ALLOCATION, SYNCHRONIZATIONS
from perfkit.analysis.model import time_split
from perfkit.analysis.model.idle import ELSEWHERE, PEERS
from perfkit.analysis.model.step import AT_LEAST, OUTSIDE
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.host_calls import FETCH
from perfkit_reports.subjects.trace.costs import compute_gain_s

_ROOFS = "roofs"
_SYNCHRONIZATIONS = tuple(kind.id for kind in (*SYNCHRONIZATIONS, ALLOCATION))


class Improvement(NamedTuple):
    """What could save so much of a step, and the ids of the findings about it.

    `much` is on which side of a sum the truth lies, empty for what was `simulated`.
    """

    what: str
    saving_s: float
    ids: tuple[str, ...] = ()
    much: str = "up to"
    simulated: bool = False


_OF_TIME = {
    time_split.DATA: ("loading data sooner", ("data.starved",)),
    time_split.PYTHON: ("fewer ops and less Python", ("cpu.dispatch", "launch.cpu_bound")),
    time_split.COMMUNICATION: ("hiding communication", ("comm.exposed",)),
    time_split.COPIES: ("hiding copies", ("copy.pageable", "copy.exposed")),
}


# What saves launches beside the time of kernels: no sum tells what it is worth.
_OF_IDS = {
    "fusion.elementwise": "fusing ops bound by memory",
    "optimizer.unfused": "fusing the optimizer's update",
    "attention.unfused": "fusing attention",
    "gemm.fp32": "products in a dtype with a higher peak",
    "launch.short_kernels": "fusing short kernels",
}


def list_improvements(trace: RankTrace) -> list[Improvement]:
    """What can be acted on: where a trace is replayed as it says, else the sums."""
    if trace.unseen_device:
        return []
    summed = _list_summed(trace)
    if trace.replay is None or trace.replay.refused or (trace.gains is not None and trace.gains.refused):
        return summed
    gains = {} if trace.gains is None else {**trace.gains.of, _ROOFS: trace.gains.roofs_s or 0.0}
    every = [*summed, *(Improvement(what, 0.0, (finding_id,)) for finding_id, what in _OF_IDS.items())]
    return [
        way._replace(saving_s=max(gains[name] for name in way.ids if name in gains), much="", simulated=True)
        for way in every
        if any(name in gains for name in way.ids)
    ]


def _list_summed(trace: RankTrace) -> list[Improvement]:
    known = [
        Improvement(what, share.seconds, ids)
        for share in trace.time_split
        for what, ids in (_OF_TIME.get(share.category, ("", ())),)
        if what
    ]
    waiting = sum(share.seconds for share in trace.time_split if share.category == time_split.WAITING_FOR_CPU)
    # What waits for the CPU is late launches but for what has a cause of its own.
    gaps = sum(row.seconds for row in trace.gaps if row.cause in (ELSEWHERE, PEERS))
    calls = sum(row.idle_s or 0.0 for row in trace.host_calls if row.kind != FETCH)
    known += [
        Improvement("giving the device work in its long gaps", gaps, ("idle.long_gaps",)),
        Improvement("not waiting for the device", calls, _SYNCHRONIZATIONS),
        Improvement("launching sooner", max(0.0, waiting - gaps - calls), ("launch.cpu_bound",)),
    ]
    saving = compute_saving_s(trace) if has_roofs(trace) else None
    roofs = (
        []
        if saving is None
        else [Improvement("reaching the roofs", saving, (_ROOFS,), get_saving_bound(trace) or "up to")]
    )
    return [*known, *roofs]


def get_saving_bound(trace: RankTrace) -> str:
    return AT_LEAST if trace.lost is not None and trace.lost.matters else ""


def has_roofs(trace: RankTrace) -> bool:
    return trace.ceilings is not None and bool(trace.ceilings.ceilings)


def compute_saving_s(trace: RankTrace) -> float | None:
    """Seconds per step above the roofs, of kernels (on a CPU: ops) with a known cost; None where none has one.

    Kernels of several streams may overlap, so that this is the most that can be saved, and never more than the step.
    """
    rows = [row for row in trace.kernels or trace.ops if row.phase != OUTSIDE]
    gains = [gain for row in rows if (gain := compute_gain_s(row)) is not None]
    return min(sum(gains), trace.step_s) if gains else None


def get_simulated_roofs_s(trace: RankTrace) -> float | None:
    """What the trace gains, replayed with all work at its roof, in seconds per step; None where that says nothing."""
    replayed, gains = trace.replay, trace.gains
    if replayed is None or replayed.refused or gains is None or gains.refused:
        return None
    return gains.roofs_s
