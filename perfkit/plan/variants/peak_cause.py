"""Names what fills the memory at a peak: categories, and the module and op with most of what is no training state."""

from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core.allocations import GRADIENT, OPTIMIZER_STATE, PARAMETER
from perfkit.core.units import format_bytes

LARGEST = 3

_STATE = (PARAMETER, GRADIENT, OPTIMIZER_STATE)


def describe_cause(account: MemoryAccount) -> str:
    """`activation 35 MiB, parameter 13 MiB; most in head: 16 MiB of aten::mm`."""
    shares = ", ".join(f"{share.category} {format_bytes(share.bytes)}" for share in account.categories[:2])
    row = next((row for row in account.rows if row.category not in _STATE and row.module), None)
    if row is None:
        return shares
    return f"{shares}; most in {row.module}: {format_bytes(row.bytes)}{f' of {row.op}' if row.op else ''}"
