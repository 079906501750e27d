"""Work as trees: sums hold on every level, and backward stands where its forward op was called. Microseconds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.model.step import FlameGraph
from perfkit.analysis.trace import flame_graphs as module
from perfkit.analysis.trace.rank_trace import analyze_ops, analyze_trace
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures import rank_traces
from tests.fixtures.trace_events import event, ops_of, sequence
from tests.fixtures.trace_events import kernel as ran
from tests.fixtures.trace_events import launch as launched
from tests.fixtures.traces import kernel, launch, op, write_trace

SQUARE = (100, 100)
RAN = [("mm", 30), ("mm", 20), ("relu", 10), ("add", 5)]


def four_ops(tmp_path: Path) -> Ops:
    """Two products and an activation in modules, and an addition outside of all."""
    events = []
    for number, (name, duration) in enumerate(RAN, start=1):
        at = 100 * number
        events += [op(f"aten::{name}", at, 10, [SQUARE, SQUARE]), launch(number, at + 2)]
        events.append(kernel(f"{name}_kernel", number, at + 20, duration))
    ops = read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events)))
    return replace(ops, modules=["Net_0/Block_0", "Net_0/Block_1", "Net_0"], module=np.asarray([0, 1, 2, NONE]))


def paths(flame: FlameGraph, measure: str = "time", factor: float = 1e6) -> dict[str, float]:
    """`{"Net_0/Block_0": 30}`: a measure of each node by its path."""
    found: list[str] = []
    for parent, name in zip(flame.parent, flame.name, strict=True):
        found.append((f"{found[parent]}/" if parent >= 0 else "") + flame.names[name])
    return dict(zip(found, (round(value * factor, 3) for value in flame.values[measure]), strict=True))


def trees(ops: Ops) -> dict[str, FlameGraph]:
    return {flame.grouping: flame for flame in analyze_ops(ops, rank_traces.ceilings()).flames}


def test_a_node_takes_what_all_beneath_it_takes(tmp_path: Path) -> None:
    assert paths(trees(four_ops(tmp_path))["module"]) == {
        "Net_0": 60.0,
        "no module": 5.0,
        "Net_0/Block_0": 30.0,
        "Net_0/Block_1": 20.0,
        "Net_0/aten::relu": 10.0,
        "no module/aten::add": 5.0,
        "Net_0/Block_0/aten::mm": 30.0,
        "Net_0/Block_1/aten::mm": 20.0,
        "Net_0/aten::relu/relu_kernel": 10.0,
        "no module/aten::add/add_kernel": 5.0,
        "Net_0/Block_0/aten::mm/mm_kernel": 30.0,
        "Net_0/Block_1/aten::mm/mm_kernel": 20.0,
    }


def test_modules_that_differ_in_their_number_are_one_layer(tmp_path: Path) -> None:
    layers = paths(trees(four_ops(tmp_path))["layer"])
    assert layers["Net_*/Block_*"] == 50.0
    assert layers["Net_*/Block_*/aten::mm"] == 50.0


def test_flops_bytes_and_time_above_the_roof_add_up_to_those_of_the_tables(tmp_path: Path) -> None:
    ops = four_ops(tmp_path)
    found = analyze_ops(ops, rank_traces.ceilings())
    (flame,) = (flame for flame in found.flames if flame.grouping == "phase")
    top = [place for place, parent in enumerate(flame.parent) if parent == -1]
    sums = {measure: sum(values[place] for place in top) for measure, values in flame.values.items()}
    assert sums["flops"] == pytest.approx(sum(row.flops or 0.0 for row in found.kernels))
    assert sums["bytes"] == pytest.approx(sum(row.bytes or 0.0 for row in found.kernels))
    above = [row.seconds - row.attainable_s for row in found.kernels if row.attainable_s and not row.above_roof]
    assert sums["above"] == pytest.approx(sum(max(0.0, gain) for gain in above))


def test_the_smallest_nodes_of_very_many_are_left_out_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_NODES", 4)
    flame = trees(four_ops(tmp_path))["phase"]
    assert len(flame.name) < 10
    assert flame.min_share > module.LEAST
    assert all(parent < place for place, parent in enumerate(flame.parent))


def test_of_very_many_names_the_shortest_share_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LEAVES", 2)
    top = {path: taken for path, taken in paths(trees(four_ops(tmp_path))["phase"]).items() if "/" not in path}
    assert top == {"forward": 60.0, "(other ops)": 5.0}


def test_the_program_s_frames_hold_their_ops_and_those_of_their_backward(tmp_path: Path) -> None:
    frames = [
        ("train.py(10): main", 0, 1000),
        ("/lib/python3.11/contextlib.py(80): inner", 5, 400),
        ("model.py(5): forward", 10, 300),
    ]
    ops = ops_of(
        tmp_path,
        *(event(name, at, long, cat="python_function") for name, at, long in frames),
        event("aten::mm", 100, 50, **sequence(7)),
        launched(1, 110),
        ran("gemm", 200, 30, 1),
        event("autograd::engine::evaluate_function: MmBackward0", 500, 100, tid=2, **sequence(7, backward=True)),
        event("MmBackward0", 505, 90, tid=2, **sequence(7, backward=True)),
        event("aten::mm", 510, 50, tid=2),
        launched(2, 520, tid=2),
        ran("gemm", 600, 40, 2),
        event("aten::add", 800, 50),
        launched(3, 810),
        ran("add", 850, 10, 3),
    )
    stack = paths(trees(ops)["stack"])
    assert stack["train.py(10): main"] == 80.0
    assert stack["train.py(10): main/model.py(5): forward/aten::mm"] == 70.0
    assert stack["train.py(10): main/aten::add"] == 10.0
    assert not [path for path in stack if "contextlib" in path]


def test_a_trace_without_frames_and_modules_has_phases_only(tmp_path: Path) -> None:
    ops = ops_of(tmp_path, event("aten::mm", 100, 50), launched(1, 110), ran("gemm", 200, 30, 1))
    assert list(trees(ops)) == ["phase"]


def test_where_nothing_ran_there_is_no_tree(tmp_path: Path) -> None:
    trace = read_trace(write_trace(tmp_path / "t.json.gz", [event("train.py(1): main", 0, 10, cat="python_function")]))
    assert analyze_trace(trace, None).flames == ()
