"""Rules about memory that the caching allocator reserves and does not use."""

import re
from collections.abc import Iterator

from perfkit.analysis.memory.findings.account_view import AccountView
from perfkit.analysis.memory.findings.memory_thresholds import FREE, IN_ONE_PIECE, KEPT, SEGMENT, SMALL_BYTES
from perfkit.analysis.memory.non_allocator_memory import RESERVED_FREE
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory_model import Fragmentation
from perfkit.core.units import format_bytes, format_percent
from perfkit.devices.accelerator import is_cuda

_EXPANDABLE = (
    "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PYTORCH_ALLOC_CONF in newer versions of torch) before "
    "importing torch, and keep shapes constant from step to step"
)
_RELEASE = (
    "call torch.cuda.empty_cache() once after a phase that needed more (evaluation, compilation), keep shapes constant "
    "from step to step, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True or garbage_collection_threshold:0.8"
)
# For devices other than CUDA, whose allocators lack these settings.
_EQUAL_SHAPES = "keep shapes constant from step to step, so that freed pieces fit the next requests"
_KEPT_IN_MESSAGE = re.compile(r"([\d.]+) (bytes|[KMGT]iB) is reserved by PyTorch but unallocated")
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def _choose_advice(view: AccountView, for_cuda: str) -> str:
    return for_cuda if is_cuda(view.account.device) else _EQUAL_SHAPES


def find_request_without_one_piece(view: AccountView) -> Iterator[Finding]:
    """A failed request that the free reserved memory could have served in one piece."""
    failed, reserve = view.account.failed_request, view.account.fragmentation
    if failed is None or failed.bytes is None:
        return
    kept = parse_message_bytes(_KEPT_IN_MESSAGE, failed.message)
    if kept is not None and kept >= failed.bytes:
        figures = {"asked_bytes": failed.bytes, "free_bytes": kept}
        evidence = f"{format_bytes(failed.bytes)} requested with about {format_bytes(kept)} reserved but unused"
    elif kept is None and reserve is not None and _has_too_small_pieces(reserve, failed.bytes):
        figures = {"asked_bytes": failed.bytes, "free_bytes": reserve.free_bytes}
        evidence = (
            f"{format_bytes(failed.bytes)} requested; {format_bytes(reserve.free_bytes)} reserved but unused at the "
            f"peak, in pieces of at most {format_bytes(reserve.largest_free_bytes or 0)}"
        )
    else:
        return
    yield view.build_remark(
        "memory.fragmented_request",
        "warning",
        "Failed request would fit without fragmentation",
        evidence,
        _choose_advice(view, _EXPANDABLE),
        figures=figures,
    )


def _has_too_small_pieces(reserve: Fragmentation, asked: int) -> bool:
    return reserve.largest_free_bytes is not None and reserve.largest_free_bytes < asked <= reserve.free_bytes


def find_fragmentation(view: AccountView) -> Iterator[Finding]:
    """Reserved memory that is free in small pieces."""
    reserve = view.account.fragmentation
    if reserve is None or not _is_in_pieces(reserve):
        return
    yield view.build_gain(
        "memory.fragmentation",
        f"Fragmentation: {format_percent(reserve.free_bytes / reserve.reserved_bytes, 0)} of reserved memory",
        f"{format_bytes(reserve.free_bytes)} of {format_bytes(reserve.reserved_bytes)} unused at the peak, largest "
        "piece "
        f"{format_bytes(reserve.largest_free_bytes or 0)}",
        _choose_advice(view, _EXPANDABLE),
        reserve.free_bytes,
        details=("upper bound: all free pieces; allocators never use all reserved memory",),
        figures={
            "free_bytes": reserve.free_bytes,
            "reserved_bytes": reserve.reserved_bytes,
            "largest_bytes": reserve.largest_free_bytes or 0,
        },
    )


def find_unused_reserve(view: AccountView) -> Iterator[Finding]:
    """Reserved memory that is unused at the peak, in large pieces or in pieces of unknown size."""
    reserve = view.account.fragmentation
    if reserve is not None and _is_in_pieces(reserve):
        return
    free = reserve.free_bytes if reserve is not None else _sum_free_reserve(view)
    reserved = reserve.reserved_bytes if reserve is not None else view.account.peak_bytes + free
    if free < SEGMENT or free < KEPT * reserved:
        return
    piece = (
        ""
        if reserve is None or reserve.largest_free_bytes is None
        else f", {format_bytes(reserve.largest_free_bytes)} in one piece"
    )
    yield view.build_remark(
        "memory.unused_reserve",
        "note",
        f"{format_percent(free / reserved, 0)} of reserved memory unused at the peak",
        f"{format_bytes(free)} of {format_bytes(reserved)} kept for later requests{piece}, unavailable to other "
        "processes",
        _choose_advice(view, _RELEASE),
        figures={"free_bytes": free, "reserved_bytes": reserved},
    )


def _is_in_pieces(reserve: Fragmentation) -> bool:
    largest = reserve.largest_free_bytes
    much = reserve.free_bytes >= SMALL_BYTES and reserve.free_bytes >= FREE * reserve.reserved_bytes
    return much and largest is not None and largest < IN_ONE_PIECE * reserve.free_bytes


def _sum_free_reserve(view: AccountView) -> int:
    return sum(share.bytes for share in view.account.outside_allocator if share.category == RESERVED_FREE)


def parse_message_bytes(pattern: re.Pattern[str], message: str) -> float | None:
    """Bytes that the allocator's message names, rounded as it does; None where it does not."""
    match = pattern.search(message)
    return None if match is None else float(match.group(1)) * _UNITS[match.group(2)]
