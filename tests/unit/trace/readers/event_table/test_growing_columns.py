"""Columns put together from parts hold what the parts held, in integers that are as wide as they must be."""

import json
from pathlib import Path

import numpy as np
import pytest

from perfkit.trace.compact_ints import compact_ints
from perfkit.trace.model import NONE, Category
from perfkit.trace.readers.event_table.growing_columns import (
    GrowingColumn,
    reorder_columns,
    select_rows,
    share_empty_columns,
)
from perfkit.trace.readers.trace_reader import read_trace


def test_parts_stand_in_their_order() -> None:
    column = GrowingColumn()
    parts = [np.arange(size, dtype=np.int64) * 10**12 for size in (3, 0, 50_000, 1)]
    for part in parts:
        column.extend(part)
    assert len(column) == 50_004
    assert np.array_equal(column.take(), np.concatenate(parts))


def test_a_column_has_the_type_of_its_first_part_even_an_empty_one() -> None:
    column = GrowingColumn()
    column.extend(np.zeros(0, np.bool_))
    assert column.take().dtype == np.bool_


@pytest.mark.parametrize("wide", [2**31, -(2**31) - 1, 2**63 - 1])
def test_a_compact_column_widens_when_it_must(wide: int) -> None:
    column = GrowingColumn(compact=True)
    column.extend(np.asarray([NONE, 2**31 - 1, -(2**31)], np.int64))
    fitting = GrowingColumn(compact=True)
    fitting.extend(np.asarray([NONE, 2**31 - 1, -(2**31)], np.int64))
    column.extend(np.asarray([5, wide], np.int64))
    column.extend(np.asarray([6], np.int64))
    assert fitting.take().dtype == np.int32
    values = column.take()
    assert values.dtype == np.int64
    assert values.tolist() == [NONE, 2**31 - 1, -(2**31), 5, wide, 6]


def test_compacting_never_changes_a_value() -> None:
    assert compact_ints(np.asarray([2**31 - 1])).dtype == np.int32
    assert compact_ints(np.asarray([2**31])).tolist() == [2**31]


def test_rows_are_reordered_and_dropped_in_all_columns() -> None:
    columns = {"a": np.asarray([1, 2, 3]), "b": np.asarray([True, False, True])}
    reorder_columns(columns, np.asarray([2, 0, 1]))
    select_rows(columns, np.asarray([True, False, True]))
    assert {name: column.tolist() for name, column in columns.items()} == {"a": [3, 2], "b": [True, False]}


def test_identifiers_of_64_bits_are_read_beside_small_ones(tmp_path: Path) -> None:
    wide = 2**40 + 3
    events = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1, "dur": 1,
         "args": {"External id": wide}},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 3, "dur": 1,
         "args": {"External id": wide, "device": 0, "stream": wide}},
    ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    trace = read_trace(path)
    assert trace.correlation.tolist() == [wide, wide]  # this file has no other: the column was compact until then
    assert trace.stream[trace.select_events(Category.KERNEL)].tolist() == [wide]
    assert trace.sequence.dtype == np.int32


def test_a_column_of_nothing_takes_no_memory_and_reads_the_same() -> None:
    columns = {
        "none": np.full(1000, NONE, np.int32),
        "some": np.asarray([NONE, 3, NONE]),
        "flags": np.ones(3, np.bool_),
    }
    share_empty_columns(columns)
    assert columns["none"].tolist() == [NONE] * 1000
    assert columns["none"].base is not None
    assert columns["none"].strides == (0,)
    assert columns["some"].tolist() == [NONE, 3, NONE]
    assert columns["some"].flags.writeable


def test_allocations_are_left_out_on_demand(tmp_path: Path) -> None:
    event = {
        "ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1, "s": "t",
        "args": {"Addr": 1, "Bytes": 512, "Total Allocated": 512, "Device Type": 0, "Device Id": -1},
    }  # fmt: skip
    work = {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event, work]}))
    assert read_trace(path).memory.size.tolist() == [512]
    without = read_trace(path, allocations=False)
    assert (len(without.memory), len(without)) == (0, 1)
