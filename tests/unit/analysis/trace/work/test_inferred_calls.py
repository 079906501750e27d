"""Calls of kernels without an op, from equal kernels of the same trace.

A step is four kernels on one stream: a product (of one kernel that multiplies and one that adds up), relu, a product
of another inner dimension that is launched just like the first, and sigmoid.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.analysis.trace.rank_trace import analyze_ops
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.work.inferred_calls import AS_ELSEWHERE, fill_inferred_values, infer_calls
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis, analyze_work
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, op, write_trace

GRIDS = {"ampere_sgemm_64x64_nn": [4, 1, 1], "splitKreduce_kernel": [1, 1, 1], "relu": [8, 1, 1], "sigmoid": [8, 1, 1]}
WIDE, DEEP = [[64, 32], [32, 64]], [[64, 128], [128, 64]]
NAMES = ["ampere_sgemm_64x64_nn", "splitKreduce_kernel", "relu", "ampere_sgemm_64x64_nn", "sigmoid"]
OPS: list[tuple[str, list[list[int]], tuple[int, ...]]] = [
    ("aten::mm", WIDE, (0, 1)),
    ("aten::relu", [[64, 64]], (2,)),
    ("aten::mm", DEEP, (3,)),
    ("aten::sigmoid", [[64, 64]], (4,)),
]
TIMES = (10, 2, 3, 11, 3)
STEP = 100


def events(steps: int, hidden: int = 0, **changes: Any) -> list[Event]:
    """So many equal steps, without the ops and launches of the first; `changes` are members of the kernels' `args`."""
    found: list[Event] = []
    for step in range(steps):
        begin, number = step * STEP, 10 * step
        for name, inputs, kernels in OPS:
            if step >= hidden:
                found.append(op(name, begin + 10 * kernels[0], 9, inputs))
                found += [
                    launch(number + each, begin + 10 * kernels[0] + 2 + index, 1) for index, each in enumerate(kernels)
                ]
        for index, (name, took) in enumerate(zip(NAMES, TIMES, strict=True)):
            ran = kernel(name, number + index, begin + 20 * index + 5, took)
            args = {**ran["args"], "grid": GRIDS[name], "block": [128, 1, 1], "shared memory": 0, **changes}
            found.append({**ran, "args": args})
    return found


def analysed(folder: Path, found: list[Event]) -> WorkAnalysis:
    return analyze_work(read_ops(read_trace(write_trace(folder / "trace.json.gz", found))), Roofs(None, ""))


def test_hidden_ops_get_the_costs_that_they_have(tmp_path: Path) -> None:
    whole, hidden = analysed(tmp_path, events(5)), analysed(tmp_path, events(5, hidden=2))
    # The first two and the last two kernels of the trace lack a neighbour that all others have.
    expected = np.zeros(25, np.bool_)
    expected[2:10] = True
    assert hidden.pieces.inferred.tolist() == expected.tolist()
    for name in ("flops", "bytes"):
        truth, found = getattr(whole.costs, name), getattr(hidden.costs, name)
        assert np.array_equal(found[2:], truth[2:])
        assert np.isnan(found[:2]).all()
    assert hidden.costs.flops[3] == 2 * 64 * 128 * 64
    assert hidden.costs.flops[5] == 2 * 64 * 32 * 64  # of the product all, of what adds up nothing
    assert hidden.costs.flops[6] == 0
    assert hidden.costs.bytes[5] == pytest.approx((64 * 32 * 2 + 64 * 64) * 4 * 10 / 12)
    assert (hidden.costs.precision[5], hidden.costs.is_matrix[5]) == (whole.costs.precision[5], True)


def test_rows_and_coverage_say_what_is_inferred(tmp_path: Path) -> None:
    ops = read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events(5, hidden=2))))
    result = analyze_ops(ops, None)
    rows = {(row.name, row.shapes): row for row in result.ops}
    deep = rows["aten::mm (inferred)", "fp32[64,128] fp32[128,64]"]
    steps = len(result.steps)  # found by their period
    assert deep.flops == pytest.approx(2 * 2 * 64 * 128 * 64 / steps)  # two of them
    assert deep.cost_source.endswith(AS_ELSEWHERE)
    assert rows["(no op recorded)", ""].seconds == pytest.approx(12e-6 / steps)
    assert {row.op for row in result.kernels if row.name == "relu"} == {"aten::relu", "aten::relu (inferred)"}
    coverage = result.coverage
    assert coverage.linked_s == pytest.approx(3 * 29e-6)
    assert coverage.inferred_s == pytest.approx((2 * 29 - 12) * 1e-6)
    assert coverage.flops_s == coverage.bytes_s == pytest.approx((5 * 29 - 12) * 1e-6)
    assert sum(row.seconds for row in result.ops) == pytest.approx(coverage.kernel_s / steps)


def without_geometry(steps: int, hidden: int, slower: float = 1.0) -> list[Event]:
    """As ROCm's tracer records them; the products of the second step take longer."""
    found = []
    for recorded in events(steps, hidden):
        args = {name: value for name, value in recorded["args"].items() if name != "grid"}
        second = recorded["cat"] == "kernel" and "gemm" in recorded["name"] and STEP <= recorded["ts"] < 2 * STEP
        found.append({**recorded, "args": args, "dur": recorded["dur"] * (slower if second else 1.0)})
    return found


def test_without_a_geometry_name_order_and_time_decide(tmp_path: Path) -> None:
    found = analysed(tmp_path, without_geometry(6, hidden=2))
    # Three neighbours on each side: the first three kernels lack one. The two products are told apart.
    assert found.pieces.inferred.tolist() == [False] * 3 + [True] * 7 + [False] * 20
    assert found.costs.flops[3] == 2 * 64 * 128 * 64
    assert found.costs.flops[5] == 2 * 64 * 32 * 64


def test_without_a_geometry_another_time_may_be_another_size(tmp_path: Path) -> None:
    found = analysed(tmp_path, without_geometry(6, hidden=2, slower=1.3))
    assert found.pieces.inferred.tolist()[5:10] == [False, True, True, False, True]


def test_a_kernel_without_geometry_among_others_stays_without_a_call(tmp_path: Path) -> None:
    recorded = events(5, hidden=2)
    args = {name: value for name, value in recorded[2]["args"].items() if name != "grid"}
    assert recorded[2]["name"] == "relu"
    recorded[2] = {**recorded[2], "args": args}
    assert not analysed(tmp_path, recorded).pieces.inferred[2]


# One stream of kernels a b a b ...; the first six have no op.
A, B = 0, 1
NAME = np.asarray([A, B] * 8)


def infer(**columns: Any) -> list[int]:
    given: dict[str, Any] = {
        "name": NAME,
        "geometry": np.zeros(16, np.int32),
        "lane": np.zeros(16, np.int64),
        "busy_ns": np.full(16, 100),
        "is_work": np.ones(16, np.bool_),
        "owner": np.asarray([NONE] * 6 + [0] * 10),
        "call": np.asarray([NONE] * 6 + [7, 8] * 5),
        **columns,
    }
    return infer_calls(*given.values()).tolist()[:6]


def test_equal_kernels_between_equal_neighbours_are_of_one_call() -> None:
    assert infer() == [NONE, NONE, 7, 8, 7, 8]


def test_several_calls_are_ambiguous() -> None:
    assert infer(call=np.asarray([NONE] * 6 + [7, 8] * 4 + [9, 8])) == [
        NONE,
        NONE,
        7,
        8,
        7,
        8,
    ]  # told by the stream's end
    assert infer(call=np.asarray([NONE] * 6 + [7, 8, 9, 8] * 2 + [7, 8])) == [NONE, NONE, NONE, 8, NONE, 8]


def test_a_kernel_that_was_seen_once_tells_nothing() -> None:
    assert infer(owner=np.asarray([NONE] * 12 + [0] * 4), call=np.asarray([NONE] * 12 + [7, 8] * 2)) == [NONE] * 6


def test_work_without_a_formula_stays_without() -> None:
    assert infer(call=np.asarray([NONE] * 6 + [7, NONE] * 5)) == [NONE, NONE, 7, NONE, 7, NONE]


def test_a_kernel_that_takes_another_time_is_another() -> None:
    busy = np.full(16, 100)
    busy[2], busy[3], busy[4] = 210, 195, 40
    assert infer(busy_ns=busy) == [NONE, NONE, NONE, 8, NONE, 8]


def test_another_geometry_is_another_kernel() -> None:
    geometry = np.zeros(16, np.int32)
    geometry[5] = 1
    assert infer(geometry=geometry) == [NONE, NONE, 7, NONE, NONE, NONE]  # and what runs beside it


def test_neighbours_are_those_of_the_stream() -> None:
    lane = np.asarray([0, 0, 1, 1] * 4)
    assert infer(lane=lane) == [NONE, NONE, NONE, NONE, 7, 8]


def test_a_part_of_a_call_takes_the_mean_of_its_like() -> None:
    values = np.asarray([np.nan, 2.0, 4.0, 9.0])
    same = np.zeros(4, np.int64)
    inferred = np.asarray([True, False, False, False])
    found = fill_inferred_values(values, np.asarray([0, 0, 0, 1]), same.astype(np.int32), same, inferred)
    assert found.tolist() == [3.0, 2.0, 4.0, 9.0]
