"""Messages of each collective of a trace: as recorded, or by the inputs of the op that called it."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.cost.calls.args import walk_tensors
from perfkit.cost.calls.collective import CollectiveType as CollectiveKind
from perfkit.cost.calls.collective import (
    Message,
    classify_collective,
    make_message,
    parse_kernel_collective,
    parse_kernel_ranks,
)
from perfkit.cost.calls.dtypes import BY_NAME, UNKNOWN
from perfkit.cost.calls.op_call import TensorArg
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE, Category, CollectiveRecord, Ints, Small, Trace
from perfkit.trace.ops.ops import Ops
from perfkit.trace.ops.signatures import parse_arguments

# What a collective recorded lies on its kernel or on one of the innermost ops around the launch (`record_param_comms`).
_LEVELS = 4

_C10 = {"fp64": "Double", "fp32": "Float", "fp16": "Half", "bf16": "BFloat16"}


class CollectiveMessages(NamedTuple):
    """For each piece, the index into `table` of its message, NONE where unknown or not a collective.

    Of a `table` entry without a group (its size is NONE) only the inputs of its op are known.
    """

    which: Ints
    table: tuple[CollectiveRecord, ...]

    def get_message_bytes(self) -> NDArray[np.float64]:
        """The size of each piece's message as nccl-tests counts it, NaN where it is not known."""
        known = [build_message(collective) for collective in self.table]
        return np.asarray([*(np.nan if sent is None else sent.bytes for sent in known), np.nan])[self.which]


def build_message(about: CollectiveRecord) -> Message | None:
    """The message of a collective; None where its size is not known. Without a group its bus factor means nothing."""
    ranks = about.group_size if about.group_size > 0 else 1
    return make_message(about.name, about.dtype, about.sent, about.received, ranks)


def find_recorded_collectives(ops: Ops, events: Ints, row: Ints) -> Ints:
    """For each event, of the op in `row`, the recorded collective; NONE without one."""
    own = ops.trace.collective[events].astype(np.int64)
    around = _find_nearest(ops, row, ops.trace.collective[ops.event].astype(np.int64))
    nearest: Ints = np.where(own == NONE, around, own)
    return nearest


def find_recorded_numbers(ops: Ops, events: Ints, row: Ints) -> Ints:
    """For each event, of the op in `row`, the collective's number in its process group; NONE without one."""
    table = np.asarray([*(statement.number for statement in ops.trace.statements), NONE], np.int64)
    own = table[ops.trace.stated[events]]
    numbers: Ints = np.where(own == NONE, _find_nearest(ops, row, table[ops.trace.stated[ops.event]]), own)
    return numbers


def find_recorded_splits(ops: Ops, events: Ints, row: Ints) -> Ints:
    """For each event, of the op in `row`, the index of the statement with the parts of its message; NONE without."""
    has = np.asarray([*(bool(stated.sent_splits or stated.received_splits) for stated in ops.trace.statements), False])

    def select(stated: Small) -> Ints:
        return np.where(has[stated], stated, NONE).astype(np.int64)

    own, of_op = select(ops.trace.stated[events]), select(ops.trace.stated[ops.event])
    splits: Ints = np.where(own == NONE, _find_nearest(ops, row, of_op), own)
    return splits


def _find_nearest(ops: Ops, row: Ints, value: Ints) -> Ints:
    """The value of the op in each row, or of the innermost of those around it that has one; NONE where none has."""
    of_op, parent = np.append(value, NONE), np.append(ops.parent, NONE)
    nearest = np.full(len(row), NONE, np.int64)
    for _ in range(_LEVELS):
        nearest = np.where(nearest == NONE, of_op[row], nearest)
        row = parent[row]
    return nearest


def find_requesting_ops(pieces: WorkItems) -> Ints:
    """For each collective run on the CPU, the row of the op that requested it, NONE for all else.

    A backend's thread runs the latest op before it that no other collective was found to run. That op's own time is for
    handing over, and for copying inputs.
    """
    asked = np.full(len(pieces), NONE, np.int64)
    if pieces.on_device:
        return asked
    exchanging = np.flatnonzero(pieces.is_kind(WorkKind.COMMUNICATION))
    runs = pieces.ops.trace.category[pieces.event[exchanging]] == Category.RANGE
    waiting: list[int] = []
    for row, ran in zip(exchanging.tolist(), runs.tolist(), strict=True):  # in the order of their begin
        if not ran:
            waiting.append(row)
        elif waiting:
            asked[row] = waiting.pop()
    return asked


def collect_messages(pieces: WorkItems) -> CollectiveMessages:
    """Collect the messages of all collectives."""
    trace, ops = pieces.ops.trace, pieces.ops
    exchanging = pieces.is_kind(WorkKind.COMMUNICATION)
    row = ops.kernel_op if pieces.on_device else pieces.owner
    which = np.where(exchanging, find_recorded_collectives(ops, pieces.event, row), NONE)
    if not exchanging.any():
        return CollectiveMessages(which, tuple(trace.collectives))
    called = mark_named(trace, ops.event, lambda name: classify_collective(name) is not None)
    called &= trace.signature[ops.event] != NONE
    caller = _find_nearest(ops, row, np.where(called, np.arange(len(ops)), NONE))
    table, only = list(trace.collectives), _find_only_group(trace)
    rows_by_key: dict[tuple[int, int, int], int] = {}
    # Collectives are few compared with kernels, and mostly equal.
    unknown = np.flatnonzero(exchanging & (which == NONE) & (caller != NONE))
    events = ops.event[caller[unknown]]
    keys = zip(
        trace.name[events].tolist(), trace.signature[events].tolist(), pieces.name[unknown].tolist(), strict=True
    )
    for piece, key in zip(unknown.tolist(), keys, strict=True):
        if key not in rows_by_key:
            name, signature, kernel = key
            tensors = walk_tensors(parse_arguments(trace.signatures[signature]) or ())
            rows_by_key[key] = len(table)
            table.append(_infer_from_inputs(trace.names[name], list(tensors), trace.names[kernel], only))
        which[piece] = rows_by_key[key]
    _fill_from_ranges(pieces, which, table, only)
    return CollectiveMessages(which, tuple(table))


def _fill_from_ranges(pieces: WorkItems, which: Ints, table: list[CollectiveRecord], only: tuple[str, int]) -> None:
    """Fill in the messages of CPU backends, from the inputs of their ranges."""
    trace = pieces.ops.trace
    signature = trace.signature[pieces.event]
    ranges = pieces.is_kind(WorkKind.COMMUNICATION) & (which == NONE) & (trace.category[pieces.event] == Category.RANGE)
    known = np.flatnonzero(ranges & (signature != NONE))
    groups = group_rows(pieces.name[known], signature[known])
    for number, first in enumerate(known[groups.first].tolist()):
        tensors = list(walk_tensors(parse_arguments(trace.signatures[int(signature[first])]) or ()))
        which[known[groups.of == number]] = len(table)
        table.append(_infer_from_parts(trace.names[int(pieces.name[first])], tensors, only))


# Collectives whose range inputs are a part of the message; for others they are all of it.
_OWN_PARTS = (CollectiveKind.ALL_GATHER, CollectiveKind.GATHER)


def _infer_from_parts(name: str, tensors: list[TensorArg], only: tuple[str, int]) -> CollectiveRecord:
    """A range has the tensors that the rank puts in (`gloo:all_gather`: its own part). Where parts make the whole and
    the number of ranks is not known, neither is the size."""
    described, size = only
    sent = sum(math.prod(tensor.shape) for tensor in tensors) if tensors else NONE
    if classify_collective(name) in _OWN_PARTS and size == NONE:
        sent = NONE
    dtypes = {tensor.dtype for tensor in tensors}
    dtype = _name_c10_dtype(next(iter(dtypes))) if len(dtypes) == 1 else ""
    return CollectiveRecord(name, dtype, sent, NONE, described, described, size)


# Ops of torch's process groups; other ops communicate in one kernel of their own.
_OF_GROUPS = ("c10d::", "_c10d_functional::", "c10d_functional::", "_c10d_functional_autograd::", "nccl:")


def _find_only_group(trace: Trace) -> tuple[str, int]:
    """Name and size of the only possible group of kernels without a recorded one; NONE where group sizes differ."""
    recorded = {known.group_size for known in trace.collectives if known.group_size > 1}
    sizes = recorded or set(trace.group_sizes) or {trace.world_size or NONE}
    if len(sizes) != 1:
        return "", NONE
    size = sizes.pop()
    return "all ranks" if size == (trace.world_size or size) else "", size


def _infer_from_inputs(name: str, tensors: list[TensorArg], kernel: str, only: tuple[str, int]) -> CollectiveRecord:
    """The output comes before the input; an all-reduce and a broadcast work in place. Lists have no recorded dtype.

    Of an op that is no process group's the input comes first and the output last; its kernel tells the number of ranks.
    """
    dtypes = {tensor.dtype for tensor in tensors} - {UNKNOWN}
    dtype = next(iter(dtypes)) if len(dtypes) == 1 else ""
    by_kernel = parse_kernel_collective(kernel)
    if not dtype and by_kernel is not None and by_kernel[0] == classify_collective(name):
        dtype = by_kernel[1] or ""
    bare = name.rpartition("::")[2].strip("_")
    sizes = [math.prod(tensor.shape) for tensor in tensors]
    if not name.startswith(_OF_GROUPS):
        ranks = parse_kernel_ranks(kernel)
        group, size = only if ranks is None else ("", ranks)
        first = sizes[0] if sizes else NONE
        last = first if classify_collective(name) is CollectiveKind.ALL_REDUCE or not sizes else sizes[-1]
        return CollectiveRecord(
            bare, _name_c10_dtype(tensors[0].dtype if tensors else dtype), first, last, group, group, size
        )
    flat = bare.endswith("base") and len(sizes) >= 2
    received, sent = (sizes[0], sizes[1]) if flat else (sum(sizes), sum(sizes))
    if not sizes:
        received = sent = NONE
    return CollectiveRecord(bare, _name_c10_dtype(dtype), sent, received, "", "", NONE)


def _name_c10_dtype(dtype: str) -> str:
    """The name of a dtype that collectives are recorded with."""
    return _C10.get(dtype) or (BY_NAME[dtype].torch_name if dtype in BY_NAME else "")
