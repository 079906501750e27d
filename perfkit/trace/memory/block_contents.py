"""Infers shape and dtype of memory blocks, where the allocating op and the size are unambiguous."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.cost.calls.op_call import OpCall
from perfkit.cost.outputs import infer_block_output
from perfkit.trace.memory.device_names import CPU
from perfkit.trace.memory.text_numbers import TraceTextNumbers
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.ops import Ops
from perfkit.trace.ops.signatures import parse_arguments


class BlockContents(NamedTuple):
    """Columns, one entry an event, of numbers in the table; 0 where nothing is certain, and for frees."""

    shape: NDArray[np.int32]
    dtype: NDArray[np.int32]


def infer_block_contents(ops: Ops, op: Ints, table: TraceTextNumbers) -> BlockContents:
    """`op` is the row of the innermost op around each memory event, NONE outside of all.

    Equal calls that allocated blocks of equal sizes are looked at once.
    """
    trace, memory = ops.trace, ops.trace.memory
    shape, dtype = np.zeros(len(memory), np.int32), np.zeros(len(memory), np.int32)
    asked = np.flatnonzero((op != NONE) & (memory.size > 0))
    asked = asked[trace.signature[ops.event[op[asked]]] != NONE]
    if not len(asked):
        return BlockContents(shape, dtype)
    event = ops.event[op[asked]]
    name, signature = trace.name[event], trace.signature[event]
    sizes, size = np.unique(memory.size[asked], return_inverse=True)
    calls, call = np.unique(name.astype(np.int64) * len(trace.signatures) + signature, return_inverse=True)
    kind = (call * len(sizes) + size) * 2 + (memory.device_type[asked] != CPU)
    kinds, of = np.unique(kind, return_inverse=True)
    outputs = np.zeros((len(kinds), 2), np.int32)
    counts, exact = np.zeros(len(kinds), np.int64), np.zeros(len(kinds), np.bool_)
    known: dict[int, OpCall | None] = {}
    for index, code in enumerate(kinds.tolist()):
        number = int(calls[code // 2 // len(sizes)])
        if number not in known:
            args = parse_arguments(trace.signatures[number % len(trace.signatures)])
            known[number] = None if args is None else OpCall(trace.names[number // len(trace.signatures)], args)
        this = known[number]
        block = None if this is None else infer_block_output(this, int(sizes[code // 2 % len(sizes)]), bool(code % 2))
        if block is not None:
            outputs[index] = table.number(str(list(block.output.shape))), table.number(block.output.dtype)
            counts[index], exact[index] = block.made, block.exact
    certain = _find_certain(op[asked], outputs[of], counts[of], exact[of])
    shape[asked], dtype[asked] = np.where(certain, outputs[of].T, 0)
    return BlockContents(shape, dtype)


def _find_certain(op: Ints, outputs: NDArray[np.int32], counts: Ints, exact: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The blocks that certainly hold an output: those of its exact size; larger ones if their op has no more blocks per
    output than it makes. Otherwise one of them is a workspace, and which one is unknown."""
    _, call = np.unique(np.column_stack([op, outputs]), axis=0, return_inverse=True)
    blocks = np.bincount(call.reshape(-1))[call.reshape(-1)]
    return exact | (blocks <= counts)
