"""What is known of ops that no formula covers.

Ops that only move data have no FLOPs, though a trace may have lost how much they move (lists of tensors, any sizes at
all). Of the ops of other packages the outputs are not recorded and what they compute is not known, so their FLOPs are
unknown and each recorded tensor moves once. That is a lower bound for an op that reads all of its inputs. Ops that look
rows up in tables (embeddings, paged caches of keys and values, experts) read a part of them, and only their positions
are counted.
"""

import re

from perfkit.cost.args import all_tensors, distinct_bytes, numel, read_bytes, result_dtype
from perfkit.cost.call import OpCall, OpCost, TensorArg, Unit
from perfkit.cost.dtypes import BY_NAME, UNKNOWN
from perfkit.cost.free import COMPOSITES, is_free
from perfkit.cost.moves import MOVES

RECORDED_INPUTS = "recorded inputs only"  # the source of such a cost
_UNSIZED = "data movement of unknown size"
_LOOKUP = re.compile(
    r"lookup|embedding|gather|index|cache|paged|select|attn|attention|_fa\d_|::fwd|mla|decode|moe|expert", re.IGNORECASE
)
_BACKWARD = re.compile(r"backward|CppNode", re.IGNORECASE)  # is given gradients, which it reads in full
_OWN = ("aten::", "prim::", "prims::", "profiler::", "autograd::", "torch::", "perfkit::", "inductor::")
_NAME = re.compile(r"\w+::[\w.]+")


def is_custom(name: str) -> bool:
    """Whether this is an op of another package: with a namespace that is none of torch's, and no collective."""
    return (
        _NAME.fullmatch(name) is not None and not name.startswith(_OWN) and not is_free(name) and name not in COMPOSITES
    )


def fallback_cost(call: OpCall) -> OpCost | None:
    """Of an op that only moves data: no FLOPs, bytes unknown. Else bytes of the recorded inputs, FLOPs unknown; None
    where no tensor was recorded.

    Only for an op beneath which no costed op lies: otherwise that tells more. The caller decides which ops those are
    (`is_custom`, `MOVES`, and generated or hand-written kernels that are recorded under their own name).
    """
    if call.name in MOVES:
        return OpCost(0.0, None, Unit.VECTOR, "", _UNSIZED)
    tensors = [each for each in all_tensors(call.args) if each.dtype != UNKNOWN]
    if not tensors or not any(map(numel, tensors)):
        return None
    dtype = result_dtype([each for each in tensors if each.shape] or tensors)
    looks_up = _LOOKUP.search(call.name) is not None and not _BACKWARD.search(call.name)
    counted = [each for each in tensors if _is_position(each)] if looks_up else tensors
    nbytes = read_bytes(*counted)
    peak = BY_NAME[dtype].peak if dtype in BY_NAME else dtype
    return OpCost(None, nbytes, Unit.VECTOR, peak, RECORDED_INPUTS) if nbytes else None


def _is_position(value: TensorArg) -> bool:
    return value.dtype in ("int64", "int32") and distinct_bytes(value) > 0
