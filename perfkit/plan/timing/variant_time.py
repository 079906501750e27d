"""Predicts the time of a rehearsed step from the target's efficiencies, links and disk."""

import sys
from collections.abc import Sequence
from functools import lru_cache, partial

from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, PlannedVariant, StepTime
from perfkit.core.errors import NewerFormatError, UnavailableError
from perfkit.core.record.quantity import Unknown
from perfkit.cost.calls.collective import CollectiveType, make_message_of_size
from perfkit.devices.accelerator import CPU
from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.devices.ceilings.ceiling import LinkRate
from perfkit.devices.links.link_calibration import load_link_rates
from perfkit.plan.rehearsal.step_ops import Issued, StepCollective, StepPage
from perfkit.plan.target import alpha_beta
from perfkit.plan.target.disk import DiskSpeed, load_disk
from perfkit.plan.target.target import Target
from perfkit.plan.timing.collectives import CollectiveProtocol, Interconnect
from perfkit.plan.timing.device_efficiencies import load_efficiencies
from perfkit.plan.timing.efficiencies import Efficiencies
from perfkit.plan.timing.efficiency_store import Kept, list_kept_files
from perfkit.plan.timing.gpu_links import make_nccl_links
from perfkit.plan.timing.host_link import find_host_link
from perfkit.plan.timing.op_rows import build_op_rows
from perfkit.plan.timing.step_time import predict_step_time


def load_gloo_links() -> Interconnect | None:
    """The links between ranks on this machine; None where they were not measured, or a newer perfkit keeps them, which
    the notes of the ceilings tell."""
    try:
        return fit_gloo_links(load_link_rates(CPU.type, ""))
    except NewerFormatError:
        return None


def fit_gloo_links(rates: Sequence[LinkRate]) -> Interconnect | None:
    """The links of ranks whose all-reduces took so long, among as few as were measured; None without any.

    One among n ranks has 2 (n - 1) hops, and a rank's links carry the message 2 (n - 1) / n times.
    """
    reduced = [rate for rate in rates if rate.collective == CollectiveType.ALL_REDUCE]
    if not reduced:
        return None
    ranks = min(rate.ranks for rate in reduced)
    of_these = [rate for rate in reduced if rate.ranks == ranks]
    line = alpha_beta.fit_transfers(
        (make_message_of_size(CollectiveType.ALL_REDUCE, rate.bytes, ranks).bus_factor * rate.bytes, rate.seconds)
        for rate in of_these
    )
    hop_s = line.start_s / (2 * (ranks - 1))
    return Interconnect(
        within=line.bytes_per_s,
        across=None,
        ranks_per_node=sys.maxsize,
        protocols=(CollectiveProtocol(start_s=0.0, hop_s=hop_s, across_hop_s=hop_s, share=1.0),),
        spread=line.spread,
        source=f"gloo between {ranks} ranks on this machine",
        by_others={
            CollectiveType.REDUCE_SCATTER: CollectiveType.ALL_REDUCE
        },  # whole, then sliced: torch's ProcessGroupGloo
    )


BUBBLE = "pipeline bubble"  # a part of a step


def add_time(
    variant: PlannedVariant,
    issued: Sequence[Issued],
    target: Target,
    threads: int,
    bubble_share: float | Unknown = 0.0,
) -> PlannedVariant:
    """The variant with its step and op times, or the reason for unknown times.

    `threads` are a CPU rank's threads. `bubble_share` is the share of a pipeline's forward and backward passes in which
    its rank waits for others.
    """
    if isinstance(bubble_share, Unknown):
        return replace(variant, step_reason=bubble_share.reason)
    try:
        known = _load_cached_efficiencies(None if target.entry is None else target.entry.id, threads, list_kept_files())
        host = None if target.entry is None else find_host_link(target.entry)
        links, pages = _find_links(issued, target), _find_disk(issued)
        time = partial(predict_step_time, kind=target.kind, efficiencies=known, links=links, disk=pages, host_link=host)
        predicted = time(issued)
        piped = [each for each in issued if each.phase in ("forward", "backward")] if bubble_share else []
        in_pipeline = time(piped)
    except UnavailableError as error:
        return replace(variant, step_reason=str(error))
    if isinstance(predicted, Unknown):
        return replace(variant, step_reason=predicted.reason)
    assert isinstance(in_pipeline, StepTime), "all of it is known"
    step = _add_bubble(predicted, in_pipeline.total, bubble_share)
    return replace(variant, step_s=step, ops=build_op_rows(issued, known, step.total.value))


def _add_bubble(step: StepTime, pipeline: Interval, share: float) -> StepTime:
    """The step with a pipeline bubble of this share of the pipeline's time."""
    if not share:
        return step
    waits = share / (1 - share)
    total = Interval(
        value=step.total.value + waits * pipeline.value,
        low=step.total.low + waits * pipeline.low,
        high=step.total.high + waits * pipeline.high,
    )
    parts = dict(sorted({**step.parts, BUBBLE: waits * pipeline.value}.items(), key=lambda part: -part[1]))
    return replace(step, total=total, parts=parts, dominant=next(iter(parts)))


@lru_cache(maxsize=8)
def _load_cached_efficiencies(device: str | None, threads: int, _kept: Kept) -> Efficiencies:
    """Efficiencies, fitted once for all variants of a plan, and again after learning."""
    target = Target() if device is None else Target(device, "cuda", resolve_entry(device))
    return load_efficiencies(target, threads)


def _find_links(issued: Sequence[Issued], target: Target) -> Interconnect | None:
    """Links between ranks; None if nothing is exchanged or the links are unknown."""
    if not any(isinstance(each, StepCollective) for each in issued):
        return None
    if target.entry is None:
        return load_gloo_links()
    return make_nccl_links(target.entry, target.ranks_per_node, target.network_bytes_per_s)


def _find_disk(issued: Sequence[Issued]) -> DiskSpeed | None:
    """This machine's disk; None if unused or unknown."""
    return load_disk() if any(isinstance(each, StepPage) for each in issued) else None
