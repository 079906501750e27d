"""Fills in fields that only some writers write, for their event categories alone."""

from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from perfkit.trace.model import NONE, EventStatement
from perfkit.trace.readers.event_table import parse_numbers
from perfkit.trace.readers.event_table.event_args import EventArgs
from perfkit.trace.readers.event_table.event_statements import has_statement, make_statement
from perfkit.trace.readers.event_table.graph_nodes import combine_graph_node
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.event_table.xla_details import format_geometry, is_tensorflow_op, parse_moved_bytes
from perfkit.trace.readers.kineto.event_members import SIGNATURE, join_members, mark_present

_OLD_OPS = "Operator"  # as torch called them until 1.12; until then it wrote `Input dims`
_NSIGHT = ("cuda", "cuda_api")  # of converters
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_CALLS = ("cuda_runtime", "hip_runtime")
_OTHER_IDS = tuple(map(attrgetter, ("correlation_nsight", "correlation_ascend")))


def add_rare_fields(rows: dict[str, NDArray[Any]], args: list[EventArgs], tables: TraceTables) -> None:
    """Fill in `numbered`, `stated`, `node`, and gaps of `signature` and `correlation`, from event arguments."""
    uncategorized = _has_category(rows, tables, "", None)  # XLA's and Ascend's profilers write none
    if uncategorized:
        rows["numbered"] = mark_present(map(attrgetter("step_num"), args), len(args))
        _add_xla_details(rows, args, tables)
    # With categories, only what names a collective states anything.
    stating = range(len(args)) if uncategorized else np.flatnonzero(rows["collective"] != NONE).tolist()
    for row in stating:
        if has_statement(args[row]):
            rows["stated"][row] = tables.stated[make_statement(args[row])]
    replayed = find_rows(rows, tables, *_DEVICE)
    if replayed:  # a kernel that no graph replayed has a node of 0
        node = parse_numbers.parse_integers(lambda: (args[row].graph_node for row in replayed), len(replayed))
        graph = parse_numbers.parse_integers(lambda: (args[row].graph for row in replayed), len(replayed))
        rows["node"][replayed] = combine_graph_node(node, graph)
    known: dict[str, int] = {}
    for row in find_rows(rows, tables, *_CALLS):
        kernel = args[row].kernel
        if isinstance(kernel, str) and kernel:
            if kernel not in known:
                known[kernel] = tables.stated[EventStatement(NONE, NONE, NONE, kernel)]
            rows["stated"][row] = known[kernel]
    if _has_category(rows, tables, _OLD_OPS):
        old = [
            replace(event_args, dims=event_args.dims_old) if event_args.dims_old else event_args for event_args in args
        ]
        rows["signature"] = join_members(old, "types", SIGNATURE, tables.signature)
    if uncategorized or _has_category(rows, tables, *_NSIGHT):
        for other in _OTHER_IDS:
            values = parse_numbers.parse_integers(partial(map, other, args), len(args))
            rows["correlation"] = np.where(rows["correlation"] == NONE, values, rows["correlation"])


def _add_xla_details(rows: dict[str, NDArray[Any]], args: list[EventArgs], tables: TraceTables) -> None:
    """Fill in which events are ops of TensorFlow's, the geometry of kernels and the sizes of copies and fills."""
    names = list(tables.name) if any(event.long_name is not None for event in args) else []
    for row, event in enumerate(args):
        if isinstance(event.long_name, str):
            rows["hlo"][row] |= is_tensorflow_op(str(names[rows["name"][row]]), event.long_name)
        if isinstance(event.kernel_details, str) and (geometry := format_geometry(event.kernel_details)):
            rows["geometry"][row] = tables.geometry[geometry]
        for details in (event.memcpy_details, event.memset_details):
            if isinstance(details, str):
                rows["moved_bytes"][row] = parse_moved_bytes(details)


def _has_category(rows: dict[str, NDArray[Any]], tables: TraceTables, *cats: str | None) -> bool:
    known = [tables.cat[cat] for cat in cats if cat in tables.cat]
    return bool(known) and bool(np.isin(rows["cat"], known).any())


def find_rows(rows: dict[str, NDArray[Any]], tables: TraceTables, *cats: str) -> list[int]:
    """The rows of some categories."""
    known = [tables.cat[cat] for cat in cats if cat in tables.cat]
    which: list[int] = np.flatnonzero(np.isin(rows["cat"], known)).tolist() if known else []
    return which
