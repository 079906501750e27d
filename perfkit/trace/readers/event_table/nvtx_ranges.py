"""NVTX ranges: steps, modules and phases by their text, and ops of torch (`torch.autograd.profiler.emit_nvtx`)."""

import json
import re
from typing import NamedTuple

from perfkit.trace.model import NONE

# torch/csrc/profiler/stubs and torch/csrc/profiler/util.cpp (`getNvtxStr`):
# `aten::addmm, seq = 5, op_id = 7, sizes = [[4], [2, 3], [3, 4]], input_op_ids = [(5,0)]`.
_MEMBERS = re.compile(r", (seq|op_id|sizes|input_op_ids) = ")
_LONGEST_SIZES, _MOST_DIGITS = 1 << 14, 19
_TENSOR = "Tensor"  # of a type that was not recorded
OP, RANGE = "cpu_op", "user_annotation"


class NvtxRange(NamedTuple):
    """What a range's text says: an op with autograd's number and the sizes of its inputs as JSON, or a range."""

    category: str
    name: str
    sequence: int = NONE
    dims: bytes = b""
    types: bytes = b""


def parse_range(text: str) -> NvtxRange:
    """The op or the range that a text stands for."""
    parts = _MEMBERS.split(text)
    name, members = parts[0], dict(zip(parts[1::2], parts[2::2], strict=True))
    if not members and not text.startswith("aten::"):
        return NvtxRange(RANGE, text)
    stated, dims = members.get("seq", ""), _parse_sizes(members.get("sizes", ""))
    sequence = int(stated) if stated.isdecimal() and len(stated) < _MOST_DIGITS else NONE
    if dims is None:
        return NvtxRange(OP, name, sequence)
    types = [_TENSOR if sizes else "" for sizes in dims]
    return NvtxRange(OP, name, sequence, json.dumps(dims).encode(), json.dumps(types).encode())


def _parse_sizes(text: str) -> list[list[int]] | None:
    if not text or len(text) > _LONGEST_SIZES:
        return None
    try:
        sizes = json.loads(text)
    except ValueError:
        return None
    is_list = isinstance(sizes, list) and all(isinstance(row, list) for row in sizes)
    return sizes if is_list and all(isinstance(size, int) for row in sizes for size in row) else None
