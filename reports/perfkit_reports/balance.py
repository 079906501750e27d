"""The balance line of memory: the categories, what they add up to, and what lies outside the allocator."""

from perfkit import units
from perfkit.analysis.result import MemoryAccount


def balance_line(account: MemoryAccount) -> str:
    """`parameter 21.0 MiB + activation 318 MiB = 339 MiB, the peak, in backward`; a remainder is named."""
    parts = [
        f"{part.category} {units.nbytes(part.bytes)}"
        for part in sorted(account.categories, key=lambda part: -part.bytes)
    ]
    remainder = account.peak_bytes - sum(part.bytes for part in account.categories)
    if remainder:
        parts.append(f"not accounted for {units.nbytes(remainder)}")
    phase = f", in {account.peak_phase}" if account.peak_phase else ""
    return f"{' + '.join(parts)} = {units.nbytes(account.peak_bytes)}, the peak{phase}"


def beyond_line(account: MemoryAccount) -> str:
    """What the allocator does not know of; empty where nothing is known."""
    return "; ".join(f"{part.category} {units.nbytes(part.bytes)}" for part in account.beyond)
