"""Names what fills the memory at a peak: categories, and the modules and op with most of what is no training state."""

from collections import Counter

from perfkit.analysis.memory.layers import fold_layer_numbers
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core.allocations import GRADIENT, OPTIMIZER_STATE, PARAMETER
from perfkit.core.units import format_bytes

LARGEST = 3

_STATE = (PARAMETER, GRADIENT, OPTIMIZER_STATE)


def describe_cause(account: MemoryAccount) -> str:
    """`activation 35 MiB, parameter 13 MiB; most in blocks.*.attention: 16 MiB of aten::_softmax`.

    Layers of one kind count together.
    """
    shares = ", ".join(f"{share.category} {format_bytes(share.bytes)}" for share in account.categories[:2])
    sizes: Counter[tuple[str, str]] = Counter()
    for row in account.rows:
        if row.category not in _STATE and row.module:
            sizes[fold_layer_numbers(row.module), row.op] += row.bytes
    if not sizes:
        return shares
    (((module, op), size),) = sizes.most_common(1)
    return f"{shares}; most in {module}: {format_bytes(size)}{f' of {op}' if op else ''}"
