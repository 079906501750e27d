"""What the critical path leads through, of a trace whose path is known: times in microseconds."""

from pathlib import Path

import pytest

from perfkit.analysis.model.replay import GEMM, HOST, WAITS
from perfkit.analysis.replay.critical_path_segments import build_path_rows
from perfkit.analysis.replay.path_spans import build_path_spans
from perfkit.analysis.replay.replay import replay_trace
from perfkit.trace import event_nesting
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def python(name: str, start: float, duration: float) -> Event:
    return {**mark(name, start, duration), "cat": "python_function"}


def layer(number: int, start: float, first: int) -> list[Event]:
    """Two products of one layer, of which the second waits for the first."""
    return [
        python(f"nn.Module: Layer_{number}", start, 40),
        python("model.py(12): forward", start + 1, 38),
        python("torch/nn/functional.py(5): linear", start + 2, 30),
        op("aten::mm", start + 3, 10),
        launch(first, start + 5),
        op("aten::mm", start + 15, 10),
        launch(first + 1, start + 17),
        kernel("gemm", first, start + 20, 100),
        kernel("gemm", first + 1, start + 122, 100),
    ]


@pytest.fixture(params=[1 << 16, 3], ids=["in one block", "in blocks"])
def replayed_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> dict[tuple[str, str], list[object]]:
    monkeypatch.setattr(event_nesting, "_BLOCK", request.param)
    events = [
        mark("ProfilerStep#1", 0, 800),
        python("train.py(3): main", 0, 800),
        *layer(0, 100, 1),
        {**launch(99, 150, 180), "name": "cudaDeviceSynchronize", "args": {}},
        *layer(1, 400, 3),
        {**launch(98, 450, 180), "name": "cudaDeviceSynchronize", "args": {}},
    ]
    replayed = replay_trace(read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events))))
    assert replayed is not None
    rows = build_path_rows(replayed, build_path_spans(replayed))
    assert sum(row.seconds for row in rows) == pytest.approx(replayed.result.recorded_s)
    return {(row.kind, row.op): [row.call, row.module, row.line, row.segments, row.seconds * 1e6] for row in rows}


def test_kernels_are_told_with_op_module_and_line_and_layers_are_one(
    replayed_rows: dict[tuple[str, str], list[object]],
) -> None:
    call, module, line, count, us = replayed_rows[GEMM, "aten::mm"]
    assert (call, module, line) == ("", "Layer", "model.py:12 forward")
    # Both products of a layer are one stretch.
    assert (count, us) == (2, pytest.approx(400))


def test_a_wait_is_told_with_its_call(replayed_rows: dict[tuple[str, str], list[object]]) -> None:
    assert replayed_rows[WAITS, ""][:3] == ["cudaDeviceSynchronize", "", "train.py:3 main"]


def test_host_time_is_cut_where_ops_begin_and_end(replayed_rows: dict[tuple[str, str], list[object]]) -> None:
    of_op = replayed_rows[HOST, "aten::mm"]
    assert of_op[1:3] == ["Layer", "model.py:12 forward"]
    assert of_op[3] == 2


def test_time_of_a_thread_that_only_launches_is_of_its_calls(tmp_path: Path) -> None:
    """A thread prepares and launches what another one queues: 70 us of compilation, and 20 us of a launch."""
    compiling = {**launch(90, 120, 70), "name": "aclopCompileAndExecute", "args": {}, "tid": 5}
    starting = {**launch(1, 200, 20), "name": "aclnnAdd", "tid": 5}
    events = [op("aten::relu", 10, 100), compiling, starting, kernel("relu", 1, 230, 300)]
    replayed = replay_trace(read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events))))
    assert replayed is not None
    rows = build_path_rows(replayed, build_path_spans(replayed))
    on_host = {row.op: row.seconds * 1e6 for row in rows if row.kind == HOST}
    assert on_host["aclopCompileAndExecute"] == pytest.approx(70)
    assert on_host["aclnnAdd"] == pytest.approx(20)
