"""Rules about transfers between devices: collectives and copies."""

from collections.abc import Iterator

from perfkit.analysis.findings.change import Change, Takes, leave_out, remove_rows
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.trace import CollectiveRow, CopyRow
from perfkit.analysis.trace.findings.remedies import (
    COPY_SOONER,
    LARGER_MESSAGES,
    OVERLAP_COLLECTIVES,
    PIN_MEMORY,
)
from perfkit.analysis.trace.findings.trace_thresholds import (
    BUS_SHARE,
    COMMON,
    LARGE_MESSAGE_BYTES,
    NOTABLE,
    SMALL_MESSAGE_BYTES,
)
from perfkit.analysis.trace.findings.trace_view import COMMUNICATION, COPIES, TraceView, shorten_kernel
from perfkit.core.units import format_bandwidth, format_bytes, format_percent
from perfkit.devices.accelerator import is_cpu
from perfkit.trace.frameworks import TORCH


def find_exposed_communication(view: TraceView) -> Iterator[RuleResult]:
    """Communication that no compute overlaps."""
    overlap = view.trace.overlap
    exposed = overlap.exposed_communication_s
    if view.get_share(exposed) < NOTABLE:
        return
    hidden = 1 - exposed / overlap.communication_s if overlap.communication_s > 0 else 0.0
    rows = sorted(view.trace.collectives, key=lambda row: -row.exposed_s)
    yield view.build_gain(
        "comm.exposed",
        f"Exposed communication: {format_percent(view.get_share(exposed), 0)} of the {view.whole}",
        f"{view.show_time(exposed)} not overlapped, most in {_list_collectives(rows)}; "
        f"{format_percent(hidden, 0)} of communication is overlapped",
        _choose_advice(rows, trains=view.trains is not False)
        if view.trace.framework == TORCH
        else view.advise(OVERLAP_COLLECTIVES),
        exposed,
        basis="may include waiting for a straggler",
        scope=(COMMUNICATION,),
        change=leave_out(COMMUNICATION),
        figures={"exposed_s": exposed, "hidden_share": hidden},
    )


def _choose_advice(rows: list[CollectiveRow], *, trains: bool) -> str:
    """The advice for the kind of collective that is exposed most."""
    first = rows[0].name.lower().replace("_", "") if rows else ""
    hiding, otherwise = (_HIDING, _HIDE_GRADIENTS) if trains else (_HIDING_IN_FORWARD, _HIDE_SUMS)
    return next((text for words, text in (*hiding, *_HIDING_ALWAYS) if any(word in first for word in words)), otherwise)


_HIDE_SUMS = (
    "Split the model over fewer ranks, or halve the batch and compute one half while the other half communicates "
    "(async_op=True): without a backward pass these are sums of a tensor-parallel model, not gradients."
)
_HIDING_IN_FORWARD = (
    (
        ("allgather", "reducescatter"),
        "Prefetch earlier (FSDPModule.set_modules_to_forward_prefetch), shard larger blocks, or keep gathered "
        "parameters (reshard_after_forward=False).",
    ),
)
_HIDE_GRADIENTS = (
    "Tune the buckets with DistributedDataParallel(bucket_cap_mb=..., gradient_as_bucket_view=True), compress them "
    "with bf16_compress_hook, or accumulate under no_sync()."
)
_HIDING = (
    (
        ("allgather", "reducescatter"),
        "Prefetch earlier (FSDPModule.set_modules_to_forward_prefetch, set_modules_to_backward_prefetch), shard "
        "larger blocks, keep gathered parameters (reshard_after_forward=False), or accumulate more microbatches.",
    ),
)
_HIDING_ALWAYS = (
    (
        ("alltoall", "sendrecv", "send", "recv"),
        "Start exchanges early with async_op=True and overlap independent compute, such as another microbatch; send in "
        "bf16.",
    ),
)


_ON_DEVICE = (
    "Check the path with nccl-tests and NCCL_DEBUG=INFO (NVLink or PCIe, GPUDirect RDMA, NCCL_IB_HCA), and keep ranks "
    "that communicate most on one node."
)
_ON_HOST = (
    "Leave cores to the collectives (fewer OMP_NUM_THREADS or --threads), and check for other processes or "
    "collectives running at the time."
)


def find_slow_link(view: TraceView) -> Iterator[RuleResult]:
    """Large messages far below the link's rate."""
    rows = [
        row
        for row in view.trace.collectives
        if row.ceiling and row.bus_bandwidth is not None and (row.message_bytes or 0) >= LARGE_MESSAGE_BYTES
        if row.bus_bandwidth < BUS_SHARE * row.ceiling
    ]
    won = sum(min(row.exposed_s, row.wall_s * (1 - (row.bus_bandwidth or 0.0) / (row.ceiling or 1.0))) for row in rows)
    if view.get_share(won) < NOTABLE:
        return
    worst = max(rows, key=lambda row: row.exposed_s)
    yield view.build_gain(
        "comm.slow_link",
        "Large messages below link bandwidth",
        f"{worst.name} of {format_bytes(worst.message_bytes or 0)}: bus bandwidth "
        f"{format_bandwidth(worst.bus_bandwidth or 0.0)}, link {format_bandwidth(worst.ceiling or 0.0)}",
        _ON_HOST if is_cpu(view.trace.device) else _ON_DEVICE,
        won,
        basis=f"a straggler causes the same; link bandwidth: {worst.ceiling_source}",
        scope=(COMMUNICATION,),
        change=Change(tuple(Takes(row, (row.bus_bandwidth or 0.0) / (row.ceiling or 1.0)) for row in rows)),
        figures={
            "message_bytes": worst.message_bytes or 0,
            "bandwidth": worst.bus_bandwidth or 0.0,
            "link_bandwidth": worst.ceiling or 0.0,
        },
    )


def find_small_messages(view: TraceView) -> Iterator[RuleResult]:
    """Many collectives of few bytes, which latency limits."""
    rows = [
        row
        for row in view.trace.collectives
        if row.message_bytes is not None and row.message_bytes < SMALL_MESSAGE_BYTES and row.calls >= 2
    ]
    # Collectives of several groups may run at once.
    exposed = min(sum(row.exposed_s for row in rows), view.trace.overlap.exposed_communication_s)
    if view.get_share(exposed) < NOTABLE:
        return
    yield view.build_gain(
        "comm.small_messages",
        f"{sum(row.calls for row in rows):,.0f} collectives under {SMALL_MESSAGE_BYTES >> 20} MiB",
        f"exposed for {view.show_time(exposed)}: {_list_collectives(rows)}",
        view.advise(LARGER_MESSAGES),
        exposed,
        basis="upper bound: assumes that one combined message is free",
        scope=(COMMUNICATION,),
        change=remove_rows(rows),
        figures={"exposed_s": exposed, "calls": sum(row.calls for row in rows)},
    )


def find_pageable_copies(view: TraceView) -> Iterator[RuleResult]:
    """Copies from pageable memory, which go through a buffer and block the CPU."""
    rows = [row for row in view.trace.copies if row.pageable]
    exposed = sum(row.exposed_s for row in rows)
    if view.get_share(exposed) < NOTABLE:
        return
    yield view.build_gain(
        "copy.pageable",
        "Copies use pageable host memory",
        f"exposed for {view.show_time(exposed)}: {_format_copies(rows)}",
        view.advise(PIN_MEMORY),
        exposed,
        basis="pinned copies overlap compute",
        scope=(COPIES,),
        change=remove_rows(rows),
        figures={"exposed_s": exposed},
    )


def find_exposed_copies(view: TraceView) -> Iterator[RuleResult]:
    """Exposed copies between CPU and device, from pinned memory or of unknown kind."""
    rows = [row for row in view.trace.copies if not row.pageable and row.kind in ("HtoD", "DtoH")]
    exposed = sum(row.exposed_s for row in rows)
    if view.get_share(exposed) >= COMMON:
        yield view.build_gain(
            "copy.exposed",
            f"Exposed copies: {format_percent(view.get_share(exposed), 0)} of the {view.whole}",
            f"{view.show_time(exposed)} not overlapped: {_format_copies(rows)}",
            view.advise(COPY_SOONER),
            exposed,
            scope=(COPIES,),
            change=remove_rows(rows),
            figures={"exposed_s": exposed},
        )


def _format_copies(rows: list[CopyRow], most: int = 3) -> str:
    return ", ".join(
        f"{row.kind} of unknown size"
        if row.bytes is None
        else f"{row.kind} {format_bytes(row.bytes)}"
        + (f" at {format_bandwidth(row.bandwidth)}" if row.bandwidth else "")
        for row in rows[:most]
    )


def _list_collectives(rows: list[CollectiveRow], most: int = 3) -> str:
    parts = [
        shorten_kernel(row.name) + (f" of {format_bytes(row.message_bytes)}" if row.message_bytes is not None else "")
        for row in rows[:most]
    ]
    return ", ".join(parts) + (f" and {len(rows) - most} more" if len(rows) > most else "") or "collectives"
