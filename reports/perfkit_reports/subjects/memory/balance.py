"""Formats memory balances: categories sum to the peak, peak and non-allocator memory to the process, and processes
and driver memory to the used memory of the device."""

from collections.abc import Iterable

from perfkit.analysis.model.memory_model import MemoryAccount, MemoryShare
from perfkit.core import units

UNACCOUNTED = "unaccounted for"
UNEXPLAINED = "unexplained"


def format_balance(account: MemoryAccount) -> str:
    """`339 MiB at the peak in backward = activation 318 MiB + parameter 21.0 MiB`; a remainder is named."""
    remainder = account.peak_bytes - sum(part.bytes for part in account.categories)
    parts = [*_sort_by_size(account.categories), *_make_remainder(UNACCOUNTED, remainder)]
    phase = f" in {account.peak_phase}" if account.peak_phase else ""
    return f"{units.format_bytes(account.peak_bytes)} at the peak{phase} = {_format_sum(parts)}"


def format_beyond(account: MemoryAccount) -> str:
    """`peak 339 MiB + reserved but free 12.0 MiB - never touched 3.00 MiB = 348 MiB process memory (RSS)`.

    No sum if process memory was not measured; empty if nothing beyond the peak is known.
    """
    parts = [MemoryShare(category="peak", bytes=account.peak_bytes), *account.outside_allocator]
    if account.process_bytes is None:
        return f"{_format_sum(parts)}; process memory was not measured" if account.outside_allocator else ""
    parts += _make_remainder(UNEXPLAINED, account.process_bytes - sum(part.bytes for part in parts))
    source = f" ({account.process_source})" if account.process_source else ""
    return f"{_format_sum(parts)} = {units.format_bytes(account.process_bytes)} process memory{source}"


def format_device(account: MemoryAccount) -> str:
    """`process 10.4 GiB + other processes 28.6 GiB + reserved by the driver 480 MiB = 39.5 GiB device memory`.

    Empty if device memory was not measured.
    """
    if account.process_bytes is None or account.device_bytes is None:
        return ""
    parts = [MemoryShare(category="process", bytes=account.process_bytes), *account.device_parts]
    return f"{_format_sum(parts)} = {units.format_bytes(account.device_bytes)} device memory"


def _sort_by_size(parts: Iterable[MemoryShare]) -> list[MemoryShare]:
    return sorted(parts, key=lambda part: -part.bytes)


def _make_remainder(name: str, amount: int) -> list[MemoryShare]:
    return [MemoryShare(category=name, bytes=amount)] if amount else []


def _format_sum(parts: Iterable[MemoryShare]) -> str:
    """`a 3 B + b 2 B - c 1 B`."""
    signed = "".join(
        f" {'-' if part.bytes < 0 else '+'} {part.category} {units.format_bytes(abs(part.bytes))}" for part in parts
    )
    return signed.removeprefix(" + ").strip() or "nothing"
