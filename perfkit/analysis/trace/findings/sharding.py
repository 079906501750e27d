"""Rules about DDP and FSDP: how often gradients are reduced, and what is gathered at once."""

from collections.abc import Iterator

from perfkit.analysis.findings.change import Change, Takes
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.fleet import DDP
from perfkit.analysis.model.trace import LAST_ARRIVAL
from perfkit.analysis.trace.findings.collective_advice import (
    SHARD_BLOCKS,
    SYNC_ONCE,
    is_gathered_whole,
    is_reduced_each_microbatch,
)
from perfkit.analysis.trace.findings.trace_thresholds import LATE_BUCKETS
from perfkit.analysis.trace.findings.trace_view import COMMUNICATION, TraceView
from perfkit.analysis.trace.findings.transfer import measure_exposed_transfers, sum_transfers
from perfkit.core.units import format_bytes, format_percent


def find_reductions_of_microbatches(view: TraceView) -> Iterator[RuleResult]:
    """Gradients that are accumulated over several backward passes, and reduced in each of them."""
    reductions = view.trace.reductions
    if reductions is None or not is_reduced_each_microbatch(reductions):
        return
    rows = [row for row in view.trace.collectives if row.of_gradients and row.seconds]
    spared = 1 - 1 / reductions.reducing
    exposed = measure_exposed_transfers(view, rows)
    known = all(row.transfer_basis == LAST_ARRIVAL for row in rows)
    yield view.build_gain(
        "comm.accumulation",
        "Gradients are reduced in every microbatch",
        f"{reductions.wrapper} reduces {format_bytes(reductions.pass_bytes)} in each of {reductions.reducing:g} of "
        f"{reductions.passes:g} backward passes per optimizer step: {format_bytes(reductions.update_bytes)}; exposed "
        f"for {view.show_time(exposed)}",
        SYNC_ONCE[reductions.wrapper],
        spared * exposed,
        basis=f"one of {reductions.reducing:g} reductions stays"
        + ("" if known else "; the shortest of equal calls bounds the transfer, and may include waiting"),
        most_s=spared * sum_transfers(rows),
        scope=(COMMUNICATION,),
        change=Change(tuple(Takes(row, 1 - spared * sum_transfers([row]) / row.seconds) for row in rows)),
        figures={
            "passes": reductions.passes,
            "reducing": reductions.reducing,
            "pass_bytes": reductions.pass_bytes,
            "update_bytes": reductions.update_bytes,
            "exposed_s": exposed,
        },
    )


def find_late_buckets(view: TraceView) -> Iterator[RuleResult]:
    """Buckets of DDP that are all reduced at the end of backward: the first one waits for gradients that come last."""
    reductions = view.trace.reductions
    if reductions is None or reductions.wrapper != DDP or reductions.calls < 2:
        return
    if reductions.first_share < LATE_BUCKETS or not reductions.pass_bytes:
        return
    rows = [row for row in view.trace.collectives if row.of_gradients]
    exposed = measure_exposed_transfers(view, rows)
    hideable = 1 - reductions.last_bytes / reductions.pass_bytes
    yield view.build_gain(
        "comm.late_buckets",
        "DDP reduces all buckets at the end of backward",
        f"the first of {reductions.calls:g} reductions begins after {format_percent(reductions.first_share, 0)} of the "
        f"time until the last; {view.show_time(exposed)} of {format_bytes(reductions.pass_bytes)} are exposed",
        "Register modules in the order in which forward uses them, or let DDP rebuild its buckets: static_graph=True, "
        "or no find_unused_parameters=True.",
        hideable * exposed,
        basis="upper bound: all but the last bucket overlap backward",
        most_s=hideable * sum_transfers(rows),
        scope=(COMMUNICATION,),
        figures={
            "calls": reductions.calls,
            "first_share": reductions.first_share,
            "exposed_s": exposed,
            "last_bytes": reductions.last_bytes,
        },
    )


def find_whole_gather(view: TraceView) -> Iterator[RuleResult]:
    """A single all-gather of FSDP2 for almost all parameters, as where only the root is sharded."""
    gathers = view.trace.gathers
    if gathers is None or not is_gathered_whole(gathers):
        return
    share = gathers.largest_bytes / gathers.all_bytes
    yield view.build_remark(
        "shard.whole_gather",
        "warning",
        "FSDP2 gathers the whole model at once",
        f"the all-gather of {gathers.largest or 'the root'} has {format_bytes(gathers.largest_bytes)} of "
        f"{format_bytes(gathers.all_bytes)} of all parameters ({format_percent(share, 0)}), in "
        f"{gathers.groups} group{'s' if gathers.groups > 1 else ''}: the peak holds them all, and no layer computes "
        "meanwhile",
        SHARD_BLOCKS,
        figures={
            "gather_bytes": gathers.largest_bytes,
            "parameter_bytes": gathers.all_bytes,
            "share": share,
            "groups": gathers.groups,
        },
    )
