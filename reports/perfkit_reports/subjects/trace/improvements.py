"""The improvements that shorten a step, and their savings."""

from typing import NamedTuple

from perfkit.analysis.model import time_split
from perfkit.analysis.model.idle import ELSEWHERE, PEERS
from perfkit.analysis.model.replay import HOST
from perfkit.analysis.model.step import AT_LEAST, OUTSIDE
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.findings.tables.host import ALLOCATION, SYNCHRONIZATIONS
from perfkit.analysis.trace.idle.host_calls import ALLOCATION as ALLOCATED
from perfkit.analysis.trace.idle.host_calls import WAIT
from perfkit.devices.accelerator import is_cpu
from perfkit_reports.subjects.trace.costs import compute_gain_s

_ROOFS = "roofs"
_MOSTLY = 0.5  # of the critical path


class Improvement(NamedTuple):
    """An instruction, its savings per step, and the ids of its findings.

    `bound` is the side of a sum on which the truth lies, empty for a `simulated` saving.
    """

    action: str
    saving_s: float
    ids: tuple[str, ...] = ()
    bound: str = "up to"
    simulated: bool = False


_OF_TIME = {
    time_split.DATA: ("load data faster", ("data.starved",)),
    time_split.PYTHON: ("run fewer ops and less Python", ("cpu.dispatch", "launch.cpu_bound")),
    time_split.COMMUNICATION: ("overlap communication", ("comm.exposed",)),
    time_split.COPIES: ("overlap copies", ("copy.pageable", "copy.exposed")),
}


# Ids of what shortens the work of the device alone.
_OF_DEVICE = (_ROOFS, "comm.exposed", "copy.pageable")

# Fixes that save launches in addition to kernel time, which no sum counts.
_OF_IDS = {
    "fusion.elementwise": "fuse memory-bound ops",
    "optimizer.unfused": "fuse the optimizer",
    "attention.unfused": "fuse attention",
    "gemm.fp32": "run GEMMs in a faster dtype",
    "launch.short_kernels": "fuse short kernels",
}


def list_improvements(trace: RankTrace) -> list[Improvement]:
    """All improvements, simulated where the trace is replayed, else summed."""
    if not trace.is_work_known:
        return []
    summed = _list_summed(trace)
    if trace.replay is None or trace.replay.reason or (trace.gains is not None and trace.gains.reason):
        return [way for way in summed if way.ids[0] not in _OF_DEVICE] if is_limited_by_cpu(trace) else summed
    gains = {} if trace.gains is None else {**trace.gains.by_finding, _ROOFS: trace.gains.roofs_s or 0.0}
    candidates = [*summed, *(Improvement(action, 0.0, (finding_id,)) for finding_id, action in _OF_IDS.items())]
    return [
        way._replace(saving_s=max(gains[name] for name in way.ids if name in gains), bound="", simulated=True)
        for way in candidates
        if any(name in gains for name in way.ids)
    ]


def get_cpu_path_share(trace: RankTrace) -> float:
    """The share of the CPU on the critical path within the steps, 0 where no path is known."""
    path = {} if trace.replay is None else trace.replay.step_path
    return path.get(HOST, 0.0) / sum(path.values()) if path else 0.0


def is_limited_by_cpu(trace: RankTrace) -> bool:
    """True if most of the critical path of a device's trace is on the CPU."""
    return not is_cpu(trace.device) and trace.is_work_known and get_cpu_path_share(trace) > _MOSTLY


def _list_summed(trace: RankTrace) -> list[Improvement]:
    known = [
        Improvement(action, share.seconds, ids)
        for share in trace.time_split
        for action, ids in (_OF_TIME.get(share.category, ("", ())),)
        if action
    ]
    waiting = sum(share.seconds for share in trace.time_split if share.category == time_split.WAITING_FOR_CPU)
    # Waiting for the CPU is late launches, but for gaps and calls with a cause of their own.
    gaps = sum(row.seconds for row in trace.gaps if row.cause in (ELSEWHERE, PEERS))
    waits, allocations = (
        sum(row.idle_s or 0.0 for row in trace.host_calls if row.kind == kind) for kind in (WAIT, ALLOCATED)
    )
    known += [
        Improvement("fill long idle gaps", gaps, ("idle.long_gaps",)),
        Improvement("avoid synchronization", waits, tuple(kind.id for kind in SYNCHRONIZATIONS)),
        Improvement("allocate device memory once", allocations, (ALLOCATION.id,)),
        Improvement("launch kernels earlier", max(0.0, waiting - gaps - waits - allocations), ("launch.cpu_bound",)),
    ]
    saving = compute_saving_s(trace) if has_roofs(trace) else None
    roofs = (
        []
        if saving is None
        else [Improvement("bring kernels to their roofline", saving, (_ROOFS,), get_saving_bound(trace) or "up to")]
    )
    return [*known, *roofs]


def get_saving_bound(trace: RankTrace) -> str:
    return AT_LEAST if trace.lost_kernels is not None and trace.lost_kernels.matters else ""


def has_roofs(trace: RankTrace) -> bool:
    return trace.ceilings is not None and bool(trace.ceilings.ceilings)


def compute_saving_s(trace: RankTrace) -> float | None:
    """Seconds per step above the roofs, of kernels (on a CPU: ops) with a known cost; None where none has one.

    Kernels of several streams may overlap, so that this is an upper bound, and never more than the step.
    """
    rows = [row for row in trace.kernels or trace.ops if row.phase != OUTSIDE]
    gains = [gain for row in rows if (gain := compute_gain_s(row)) is not None]
    return min(sum(gains), trace.step_s) if gains else None


def get_simulated_roofs_s(trace: RankTrace) -> float | None:
    """The simulated gain of all work at its roof, in seconds per step; None where it was not simulated."""
    replayed, gains = trace.replay, trace.gains
    if replayed is None or replayed.reason or gains is None or gains.reason:
        return None
    return gains.roofs_s
