"""Indexing whose indices a trace lost: its size is that of the restrided tensor beneath, as torch records it."""

import json
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from perfkit.cost.calls.op_call import OpCall, TensorArg
from perfkit.cost.nested_costs import cost_from_nested_calls
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace

X = TensorArg((100, 8), (8, 1), "fp32")
INDEX = OpCall("aten::reshape", (TensorArg((3,), (1,), "int64"), (3, 1)))


def test_rows() -> None:
    restrided = OpCall("aten::as_strided", (X, (3, 8), (0, 1), None))
    found = cost_from_nested_calls(OpCall("aten::index", (X, None)), (restrided, INDEX))
    assert found is not None
    assert found.bytes == 3 * 8 + 2 * 3 * 8 * 4
    put = cost_from_nested_calls(
        OpCall("aten::index_put_", (X, None, TensorArg((), (), "fp32"), False)), (restrided, INDEX)
    )  # one value for all places
    assert put is not None
    assert put.bytes == 3 * 8 + 4 + 3 * 8 * 4


def test_nothing_beneath_tells_nothing_of_a_gather() -> None:
    assert cost_from_nested_calls(OpCall("aten::index", (X, None)), ()) is None


def test_an_accumulating_put_has_as_many_places_as_values() -> None:
    values = TensorArg((3, 8), (8, 1), "fp32")
    found = cost_from_nested_calls(OpCall("aten::index_put_", (X, None, values, True)), ())
    assert found is not None
    assert found.bytes == 3 * 8 * 4 + 2 * 3 * 8 * 4
    assert found.flops == 24


@pytest.mark.parametrize("rows", [[1, 2, 3], [0]])
def test_recorded_by_the_profiler(rows: list[int], tmp_path: Path) -> None:
    x, index = torch.randn(100, 8), torch.tensor(rows)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        x[index]
        x[:, index]
        x[x[:, 0] > -99]  # a mask that selects all rows
        x[index] = 0.0
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    assert "aten::index" in json.dumps(json.loads(path.read_text())["traceEvents"])
    ops = read_ops(read_trace(path))
    found: dict[str, list[float]] = {}
    for row in range(len(ops)):
        if ops.call[row] != NONE and ops.name(row) in ("aten::index", "aten::index_put_"):
            found.setdefault(ops.name(row), []).append(float(ops.bytes[row]))
    n = len(rows)
    assert found["aten::index"] == [n * 8 + 2 * n * 8 * 4, n * 8 + 2 * 100 * n * 4, 800 + 2 * 3200]
    assert found["aten::index_put_"] == [n * 8 + 4 + n * 8 * 4]
