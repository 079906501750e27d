"""The table of ops and their formulas, for live calls and traces.

`cost_op` looks an op up by name: first among ops without work, then among those that a family declares, whose formulas
need no torch, then in those that other packages add by entry points of the group `perfkit.formulas`, then in torch
itself (`torch.utils.flop_counter`'s registry, with shapes from the meta kernels). Every formula whose op torch's
registry knows is tested against it; it differs where the registry is wrong (docs/costing.md).
"""

import re
import sys
import warnings
from collections.abc import Iterable
from functools import cache, lru_cache

from perfkit.core.optional_deps import TORCH, is_torch_installed
from perfkit.core.registry import BrokenPluginError, Registry
from perfkit.cost.calls.args import Formula, UnmodeledError
from perfkit.cost.calls.op_call import OpCall, OpCost
from perfkit.cost.calls.op_family import Flops, OpDeclaration, OpFamily
from perfkit.cost.formulas import (
    attention,
    constructors,
    convolution,
    elementwise,
    embedding,
    indexing,
    linalg,
    loss,
    matmul,
    movement,
    normalization,
    optimizer,
    pooling,
    recurrent,
    reduction,
    resampling,
    spectral,
)
from perfkit.cost.formulas.free_ops import COMPOSITES, get_free_cost
from perfkit.cost.formulas.packages import (
    bitsandbytes,
    experts,
    flashinfer,
    fused_layers,
    library_ops,
    quantized_products,
    serving,
    serving_layers,
    state_space,
)
from perfkit.cost.kernels.compiled_kernels import cost_compiled_kernel, is_triton_kernel
from perfkit.cost.kernels.written_kernels import cost_written_kernel, is_written_kernel

_FAMILIES = (
    matmul,
    convolution,
    attention,
    normalization,
    loss,
    elementwise,
    reduction,
    pooling,
    movement,
    constructors,
    indexing,
    embedding,
    resampling,
    recurrent,
    linalg,
    spectral,
    optimizer,
    library_ops,
    bitsandbytes,
    quantized_products,
    experts,
    serving,
    flashinfer,
    serving_layers,
    state_space,
    fused_layers,
)


def merge_families(families: Iterable[OpFamily]) -> dict[str, OpDeclaration]:
    """All ops by name; each belongs to one family."""
    table: dict[str, OpDeclaration] = {}
    for family in families:
        twice = table.keys() & family.keys()
        if twice:
            raise ValueError(f"{sorted(twice)} are declared twice")
        table.update(family)
    return table


OPS = merge_families(module.OPS for module in _FAMILIES)

# Ops that only move data, without FLOPs at any size. The last is a composition, or one kernel without a formula.
MOVES = frozenset(name for name, op in OPS.items() if op.flops is Flops.MOVES) | {"aten::repeat_interleave"}

# By the op's name, `mylib::rmsnorm`.
OTHERS: Registry[Formula] = Registry("formula", "perfkit.formulas", {})

# What a formula raises for arguments that its op would refuse, which only a damaged or foreign trace holds: too few
# arguments or dimensions, lists of unequal length, a stride of 0.
_MISFITS = (UnmodeledError, IndexError, ValueError, ZeroDivisionError)

_ATEN = "aten::"  # torch's own ops

# Ranges and autograd nodes share the trace with ops, but are not named `namespace::op`.
_OP_NAME = re.compile(r"(?!autograd::|torch::|perfkit::)\w+::\w+")


@cache
def find_formula(name: str) -> Formula | None:
    """The formula of an op: perfkit's, else another package's; None without one, or where theirs fails."""
    own = OPS.get(name)
    if own is not None:
        return own.formula
    of_module = flashinfer.find_module_formula(name)
    if of_module is not None:
        return of_module
    if name not in _list_other_names():
        return None
    try:
        return OTHERS.load(name)
    except BrokenPluginError as error:
        warnings.warn(f"{error}; the op's cost is unknown", stacklevel=2)
        return None


def has_formula(name: str) -> bool:
    return find_formula(name) is not None


@cache
def _list_other_names() -> frozenset[str]:
    return frozenset(OTHERS.list_names())


def is_left_to_torch(name: str) -> bool:
    """True for an op that only torch may have a formula for."""
    return name.startswith(_ATEN) and name not in COMPOSITES and get_free_cost(name) is None and not has_formula(name)


@lru_cache(maxsize=65536)
def cost_op(call: OpCall, *, with_torch: bool = True) -> OpCost | None:
    """FLOPs and compulsory bytes of one call, or None where the op has no formula or its arguments do not suffice.

    `with_torch`: torch may be imported for an op that no other formula covers.
    Compositions of other ops (`aten::linear`) have none: the ops beneath them are what is costed.
    """
    free = get_free_cost(call.name)
    if free is not None:
        return free
    formula = find_formula(call.name)
    try:
        if formula is not None:
            return formula(call.args)
        if is_triton_kernel(call.name):
            return cost_compiled_kernel(call)
        if is_written_kernel(call.name):
            return cost_written_kernel(call)
    except _MISFITS:
        return None
    if not with_torch or not call.args or call.name in COMPOSITES or not _OP_NAME.fullmatch(call.name):
        return None
    # Only where torch is loaded anyway can another package have registered a formula with it.
    if not (is_torch_installed() if call.name.startswith(_ATEN) else TORCH in sys.modules):
        return None
    from perfkit.cost.torch_formulas import cost_with_torch  # imports torch, which few traces need

    return cost_with_torch(call)
