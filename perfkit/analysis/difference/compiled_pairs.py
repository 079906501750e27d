"""Matches compiled code of one trace with the ops that it replaced in the other.

A kernel that torch.compile generated bears the names of the ops it was fused from, so it stands against what is left
of these in the other trace, in the same phase if that is known. An op is in many kernels and a kernel holds many ops:
all that hang together are compared as one, and no time is dealt out among them. A run of compiled code whose kernels
were not recorded names no ops: it stands against all that is gone in its phase.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from perfkit.analysis.difference.op_pair import COMPILED, OpPair
from perfkit.cost.kernels.compiled_kernels import parse_fused_ops
from perfkit.trace.ops.kernels import is_compiled_kernel, is_compiled_region

_OP = re.compile(r"aten::(?:_foreach_)?(?P<base>\w+?)_?")
_CPP = re.compile(r"(?:graph_\d+_)?(?:cpp|kernel_cpp)")
_ANY = "*"  # ops missing from a name
_PRODUCT = "product"
# The compiler takes a product for another (with its bias or without), and leaves it to a library or generates it.
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm"})


class _CompiledGroup(NamedTuple):
    """Compiled code of a phase that hangs together, and the ops that it names."""

    ops: frozenset[str]
    pairs: list[OpPair]

    @property
    def phase(self) -> str:
        """Empty where it is not known of some: kernels of replayed graphs."""
        phases = {pair.first.phase for pair in self.pairs}
        return phases.pop() if len(phases) == 1 else ""


def is_compiled(name: str) -> bool:
    """True if the row is code made by torch.compile: a kernel, or a run without known kernels."""
    return is_compiled_kernel(name) or is_compiled_region(name)


def merge_compiled_pairs(pairs: Sequence[OpPair]) -> list[OpPair]:
    """Merge compiled code on one side with the ops that it replaces on the other.

    That are the ops it names which this side lacks, or calls less often than the other.
    """
    compiled = [pair for pair in pairs if _is_one_sided(pair) and is_compiled(pair.first.name)]
    rest = [pair for pair in pairs if not any(pair is other for other in compiled)]
    for group in _group_compiled_pairs(compiled):
        replaced = [pair for pair in rest if _has_replaced_op(group, pair)]
        together = [*group.pairs, *replaced]
        before = [row for pair in together for row in pair.before]
        after = [row for pair in together for row in pair.after]
        if before and after:
            rest = [pair for pair in rest if not any(pair is other for other in replaced)]
            rest.append(OpPair(before, after, COMPILED))
        else:
            rest += group.pairs
    return rest


def _group_compiled_pairs(compiled: Sequence[OpPair]) -> list[_CompiledGroup]:
    """Code of a phase that names an op in common."""
    groups: list[_CompiledGroup] = []
    for pair in compiled:
        mine = _CompiledGroup(_list_fused_ops(pair.first.name), [pair])
        for other in [group for group in groups if _share_ops(mine, group)]:
            groups.remove(other)
            mine = _CompiledGroup(mine.ops | other.ops, [*other.pairs, *mine.pairs])
        groups.append(mine)
    return groups


def _share_ops(one: _CompiledGroup, other: _CompiledGroup) -> bool:
    phases = {one.phase, other.phase}
    return (len(phases) == 1 or "" in phases) and (_ANY in one.ops | other.ops or not one.ops.isdisjoint(other.ops))


def _has_replaced_op(group: _CompiledGroup, pair: OpPair) -> bool:
    base = _OP.fullmatch(pair.first.name)
    if base is None or group.phase not in ("", pair.first.phase):
        return False
    op = _PRODUCT if base["base"] in _PRODUCTS else base["base"]
    if op not in group.ops and not (_ANY in group.ops and _is_one_sided(pair)):
        return False
    was, now = (sum(row.calls for row in rows) for rows in (pair.before, pair.after))
    if op == _PRODUCT:
        return was != now
    return any((now < was) if code.after else (was < now) for code in group.pairs)


def _is_one_sided(pair: OpPair) -> bool:
    return not pair.before or not pair.after


@lru_cache(maxsize=8192)
def _list_fused_ops(name: str) -> frozenset[str]:
    """The ops that the name of compiled code lists; `_ANY` where it lists none."""
    listed = parse_fused_ops(_CPP.sub("triton_poi", name)) if is_compiled_kernel(name) else None
    return frozenset(_PRODUCT if op in _PRODUCTS else op for op in listed) if listed else frozenset({_ANY})
