"""A recorded forward pass as if it had been captured and replayed: each kernel has the op that really launched it."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from perfkit.experiments.graph_captures.captured_graphs import find_captured_graphs
from perfkit.experiments.graph_captures.choose_captures import choose_captures
from perfkit.experiments.graph_captures.join_captures import join_captured_ops
from perfkit.trace.graphs.replayed_graphs import find_replayed_graphs
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.graph_captures import as_graph
from tests.fixtures.traces import Event, write_trace

RECORDED = Path(__file__).parents[4] / "examples" / "h100_qwen1.5_forward.json.gz"


def known_of(ops: Ops) -> list[tuple[str, float, float]]:
    """Of each kernel with a launch the op, its FLOPs and its bytes, in the order of time."""
    rows = np.flatnonzero(ops.kernels.launch != NONE)
    assert (ops.kernel_op[rows] != NONE).all()
    owner = ops.kernel_owner[rows]
    names = [ops.name(row) for row in ops.kernel_op[rows].tolist()]
    return list(zip(names, ops.flops[owner].tolist(), ops.bytes[owner].tolist(), strict=True))


@pytest.fixture(scope="module")
def recorded() -> list[Event]:
    events: list[Event] = json.loads(gzip.decompress(RECORDED.read_bytes()))["traceEvents"]
    return events


def test_kernels_of_a_recorded_forward_have_their_ops_and_costs_again(tmp_path: Path, recorded: list[Event]) -> None:
    caught, replayed = as_graph(recorded)
    captures = find_captured_graphs(read_trace(write_trace(tmp_path / "capture.json.gz", caught)))
    ops = read_ops(read_trace(write_trace(tmp_path / "replay.json.gz", replayed)))
    truth = known_of(read_ops(read_trace(RECORDED)))
    assert len(truth) > 1000
    found = known_of(join_captured_ops(ops, choose_captures(find_replayed_graphs(ops.trace, ops.kernels), captures)))
    np.testing.assert_equal(found, truth)


def test_the_same_kernels_in_another_order_do_not_fit(tmp_path: Path, recorded: list[Event]) -> None:
    caught, replayed = as_graph(recorded)
    kernels = [event for event in replayed if event["pid"] != replayed[0]["pid"]]
    for one, other in zip(kernels, kernels[::-1][: len(kernels) // 2], strict=False):
        one["ts"], other["ts"] = other["ts"], one["ts"]
    captures = find_captured_graphs(read_trace(write_trace(tmp_path / "capture.json.gz", caught)))
    ops = read_ops(read_trace(write_trace(tmp_path / "replay.json.gz", replayed)))
    (choice,) = choose_captures(find_replayed_graphs(ops.trace, ops.kernels), captures)
    assert choice.captures == ()
