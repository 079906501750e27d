"""Rules about transfers between devices: collectives and copies."""

from collections.abc import Iterable, Iterator

from perfkit.analysis.findings.change import Change, Takes, leave_out, remove_rows
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.trace import (
    LAST_ARRIVAL,
    ONE_HOST,
    SEVERAL_HOSTS,
    SHORTEST_CALL,
    CollectiveRow,
    CopyRow,
)
from perfkit.analysis.trace.findings.collective_advice import LARGER_BLOCKS, advise_on_collectives
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
from perfkit.analysis.trace.findings.trace_view import COMMUNICATION, COPIES, TRANSFERS, TraceView, shorten_kernel
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_bandwidth, format_bytes, format_percent, format_seconds
from perfkit.cost.calls.collective import CollectiveType
from perfkit.devices.accelerator import is_cpu
from perfkit.trace.frameworks import TORCH


def find_exposed_communication(view: TraceView) -> Iterator[RuleResult]:
    """Communication that no compute overlaps; what is known to be waiting for other ranks is not gained."""
    overlap = view.trace.overlap
    exposed = overlap.exposed_communication_s
    if view.get_share(exposed) < NOTABLE:
        return
    hidden = 1 - exposed / overlap.communication_s if overlap.communication_s > 0 else 0.0
    rows = sorted(view.trace.collectives, key=lambda row: -row.exposed_s)
    waiting = min(exposed, sum(row.exposed_waiting_s for row in rows))
    transfer = exposed - waiting
    arrivals = any(row.transfer_basis == LAST_ARRIVAL for row in rows)
    yield view.build_gain(
        "comm.exposed",
        f"Exposed communication: {format_percent(view.get_share(exposed), 0)} of the {view.whole}",
        f"{view.show_time(exposed)} not overlapped"
        + (
            f": {format_seconds(transfer)} transfer, {'' if arrivals else 'at least '}{format_seconds(waiting)} waiting"
            " for other ranks"
            if waiting > _NOTHING
            else ""
        )
        + f"; most in {_list_collectives(rows)}; {format_percent(hidden, 0)} of communication is overlapped",
        advise_on_collectives(view) if view.trace.framework == TORCH else view.advise(OVERLAP_COLLECTIVES),
        transfer,
        basis="waiting for other ranks is not gained" if arrivals else _MAY_WAIT,
        most_s=sum_transfers(rows),
        scope=(COMMUNICATION,),
        change=leave_out(TRANSFERS),
        figures={
            "exposed_s": exposed,
            "hidden_share": hidden,
            **({"transfer_s": transfer, "waiting_s": waiting} if waiting > _NOTHING else {}),
        },
    )


def find_waiting(view: TraceView) -> Iterator[RuleResult]:
    """Receives that wait for their sender; and collectives that wait for other ranks, where only one rank is known."""
    rows = [row for row in view.trace.collectives if row.exposed_waiting_s and row.group_size != 1]
    messages = [row for row in rows if row.kind in _MESSAGES]
    if _is_notable(view, messages):
        yield _build_waiting(
            view,
            "comm.bubble",
            "Pipeline bubble",
            messages,
            "Use more microbatches, stages of equal time, or another schedule (interleaved 1F1B, zero bubble).",
        )
    collectives = [row for row in rows if row.kind not in _MESSAGES]
    is_alone = all(row.transfer_basis == SHORTEST_CALL for row in view.trace.collectives)
    if is_alone and _is_notable(view, collectives):
        yield _build_waiting(
            view,
            "comm.waiting",
            "Collectives wait for other ranks",
            collectives,
            "Analyze the traces of all ranks together (perfkit analyze FOLDER): they show which rank is late.",
        )


def _is_notable(view: TraceView, rows: list[CollectiveRow]) -> bool:
    return view.get_share(sum(row.exposed_waiting_s for row in rows)) >= NOTABLE


def _build_waiting(view: TraceView, kind: str, title: str, rows: list[CollectiveRow], action: str) -> RuleResult:
    waiting = sum(row.exposed_waiting_s for row in rows)
    rows = sorted(rows, key=lambda row: -row.exposed_waiting_s)
    return view.build_gain(
        kind,
        f"{title}: {format_percent(view.get_share(waiting), 0)} of the {view.whole}",
        f"at least {view.show_time(waiting)} exposed beyond the shortest of equal calls, most in "
        f"{_list_collectives(rows)}",
        action,
        waiting,
        basis="equal calls transfer in at most the time of the shortest",
        figures={"waiting_s": waiting},
    )


def measure_exposed_transfers(view: TraceView, rows: Iterable[CollectiveRow]) -> float:
    """The exposed time of some collectives without known waiting, at most that of all: several may run at once."""
    every = view.trace.collectives
    whole = view.trace.overlap.exposed_communication_s
    transfer = whole - min(whole, sum(row.exposed_waiting_s for row in every))
    return min(transfer, sum(row.exposed_s - row.exposed_waiting_s for row in rows))


def sum_transfers(rows: Iterable[CollectiveRow]) -> float:
    """The most that a change of transfers saves: other ranks may show that the replay took waits for transfers."""
    return sum(row.seconds if row.transfer_s is None else row.transfer_s for row in rows)


_MESSAGES = (CollectiveType.SEND, CollectiveType.RECEIVE)
_MAY_WAIT = "the shortest of equal calls bounds the transfer; it may include waiting for a straggler"
_NOTHING = 1e-9  # times are whole nanoseconds: smaller sums are rounding errors


_ON_DEVICE = {
    ONE_HOST: "Check the path with nccl-tests and NCCL_DEBUG=INFO (NVLink or PCIe).",
    SEVERAL_HOSTS: "Check the path with nccl-tests and NCCL_DEBUG=INFO (GPUDirect RDMA, NCCL_IB_HCA), and keep ranks "
    "that communicate most on one node.",
    "": "Check the path with nccl-tests and NCCL_DEBUG=INFO: NVLink or PCIe within a node; GPUDirect RDMA and "
    "NCCL_IB_HCA if the group spans nodes.",
}
_ON_HOST = (
    "Leave cores to the collectives (fewer OMP_NUM_THREADS or --threads), and check for other processes or "
    "collectives running at the time."
)


def find_slow_link(view: TraceView) -> Iterator[RuleResult]:
    """Large messages far below the link's rate. Messages to one rank do not show it: they wait for the other side."""
    rows = [
        row
        for row in view.trace.collectives
        if row.ceiling and row.bus_bandwidth is not None and (row.message_bytes or 0) >= LARGE_MESSAGE_BYTES
        if row.bus_bandwidth < BUS_SHARE * row.ceiling and row.kind not in _MESSAGES
    ]
    won = sum(_compute_link_loss(row) for row in rows)
    if view.get_share(won) < NOTABLE:
        return
    worst = max(rows, key=_compute_link_loss)
    doubt = "" if worst.transfer_basis == LAST_ARRIVAL else "a straggler in every call causes the same; "
    yield view.build_gain(
        "comm.slow_link",
        "Large messages below link bandwidth",
        f"{worst.name} of {format_bytes(worst.message_bytes or 0)}: bus bandwidth "
        f"{format_bandwidth(worst.bus_bandwidth or 0.0)} {_BANDWIDTH_BASES[worst.transfer_basis]}, link "
        f"{format_bandwidth(worst.ceiling or 0.0)}",
        _ON_HOST if is_cpu(view.trace.device) else _ON_DEVICE[worst.hosts],
        won,
        basis=f"{doubt}link bandwidth: {worst.ceiling_source}",
        most_s=sum_transfers(rows),
        scope=(COMMUNICATION,),
        change=Change(tuple(Takes(row, 1 - _compute_link_share(row)) for row in rows)),
        figures={
            "message_bytes": worst.message_bytes or 0,
            "bandwidth": worst.bus_bandwidth or 0.0,
            "link_bandwidth": worst.ceiling or 0.0,
        },
    )


_BANDWIDTH_BASES = {LAST_ARRIVAL: "from the last arrival", SHORTEST_CALL: "in the shortest call"}


def _compute_link_share(row: CollectiveRow) -> float:
    """The share of a row's time by which its transfers exceed that at link bandwidth."""
    transfer = row.seconds if row.transfer_s is None else row.transfer_s
    beyond = transfer * (1 - (row.bus_bandwidth or 0.0) / (row.ceiling or 1.0))
    return beyond / row.seconds if row.seconds > 0 else 0.0


def _compute_link_loss(row: CollectiveRow) -> float:
    """The exposed time per step beyond the transfer at link bandwidth."""
    return min(row.exposed_s - row.exposed_waiting_s, row.wall_s * _compute_link_share(row))


def find_small_messages(view: TraceView) -> Iterator[RuleResult]:
    """Many collectives of few bytes, which latency limits. Messages of pipeline stages cannot be combined."""
    rows = [
        row
        for row in view.trace.collectives
        if row.message_bytes is not None and row.message_bytes < SMALL_MESSAGE_BYTES and row.calls >= 2
        if row.kind not in (*_MESSAGES, CollectiveType.BARRIER)
    ]
    exposed = measure_exposed_transfers(view, rows)
    if view.get_share(exposed) < NOTABLE:
        return
    yield view.build_gain(
        "comm.small_messages",
        f"{sum(row.calls for row in rows):,.0f} collectives under {SMALL_MESSAGE_BYTES >> 20} MiB",
        f"exposed for {view.show_time(exposed)}: {_list_collectives(rows)}",
        view.advise(LARGER_MESSAGES) if view.trace.gathers is None else LARGER_BLOCKS,
        exposed,
        basis="upper bound: assumes that one combined message is free"
        + ("" if all(row.transfer_basis == LAST_ARRIVAL for row in rows) else f"; {_MAY_WAIT}"),
        most_s=sum_transfers(rows),
        scope=(COMMUNICATION,),
        change=Change(tuple(Takes(row, (row.waiting_s or 0.0) / row.seconds) for row in rows if row.seconds)),
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
        for row in rows
    ]
    return list_first(parts, most) or "collectives"
