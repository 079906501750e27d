"""The time of a rehearsed step on what it is planned for: with the efficiencies of a device, its links and its disk."""

from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, PlannedVariant, StepTime
from perfkit.devices.catalogue import named
from perfkit.errors import UnavailableError
from perfkit.plan.collectives import Interconnect, nccl
from perfkit.plan.disk import Disk, disk
from perfkit.plan.efficiencies import Efficiencies
from perfkit.plan.gloo import gloo
from perfkit.plan.host_link import host_link
from perfkit.plan.known import efficiencies_for
from perfkit.plan.learned import Kept, kept
from perfkit.plan.op_rows import op_rows
from perfkit.plan.step_ops import Issued, StepCollective, StepPage
from perfkit.plan.step_time import step_time
from perfkit.plan.target import Target
from perfkit.record import Unknown

BUBBLE = "pipeline bubble"  # a part of a step


def with_time(variant: PlannedVariant, issued: Sequence[Issued], target: Target, threads: int) -> PlannedVariant:
    """The variant with the time of its step and of its ops, or with the reason why these are not known.

    `threads` are those of a rank on a CPU.
    """
    try:
        known = _efficiencies(None if target.entry is None else target.entry.id, threads, kept())
        host = None if target.entry is None else host_link(target.entry)
        found = step_time(issued, target.kind, known, _links(issued, target), _disk(issued), host)
    except UnavailableError as error:
        return replace(variant, step_reason=str(error))
    if isinstance(found, Unknown):
        return replace(variant, step_reason=found.reason)
    return replace(variant, step_s=found, ops=op_rows(issued, known, found.total.value))


def with_bubble(step: StepTime, share: float) -> StepTime:
    """A step of a pipeline's rank, which waits for this share of it besides what it does."""
    if not share:
        return step
    longer, waits = 1 / (1 - share), step.total.value * share / (1 - share)
    total = Interval(value=step.total.value * longer, low=step.total.low * longer, high=step.total.high * longer)
    parts = dict(sorted({**step.parts, BUBBLE: waits}.items(), key=lambda part: -part[1]))
    return replace(step, total=total, parts=parts, dominant=next(iter(parts)))


@lru_cache(maxsize=8)
def _efficiencies(device: str | None, threads: int, _kept: Kept) -> Efficiencies:
    """Fitted once for all variants of a plan, and again after something was learned."""
    target = Target() if device is None else Target(device, "cuda", named(device))
    return efficiencies_for(target, threads)


def _links(issued: Sequence[Issued], target: Target) -> Interconnect | None:
    """Those between ranks; None where nothing is exchanged, and where they are not known."""
    if not any(isinstance(each, StepCollective) for each in issued):
        return None
    if target.entry is None:
        return gloo()
    return nccl(target.entry, target.ranks_per_node, target.network_bytes_per_s)


def _disk(issued: Sequence[Issued]) -> Disk | None:
    """That of this machine; None where nothing is offloaded to it, and where it is not known."""
    return disk() if any(isinstance(each, StepPage) for each in issued) else None
