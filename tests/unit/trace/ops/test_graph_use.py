"""Nodes of autograd's graph that no backward pass runs, or that run again, in traces recorded here."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from perfkit.trace.ops.graph_use import find_repeated_backward, find_unused_graph
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.trace_events import event, ops_of


def record(tmp_path: Path, program: Callable[[], None]) -> Ops:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        program()
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    return read_ops(read_trace(path))


def names(ops: Ops, marked: object) -> list[str]:
    return [ops.name(row) for row, its in enumerate(marked) if its]  # type: ignore[call-overload]


def test_a_forward_pass_that_backward_does_not_use(tmp_path: Path) -> None:
    model, x = nn.Linear(4, 4), torch.randn(2, 4)

    def program() -> None:
        loss = model(x).relu().sum()
        model(x).sigmoid()
        with torch.no_grad():
            model(x).tanh()
        loss.backward()

    ops = record(tmp_path, program)
    unused = names(ops, find_unused_graph(ops))
    assert unused.count("aten::addmm") == 1
    assert "aten::relu" not in unused
    assert "aten::tanh" not in unused
    assert names(ops, find_repeated_backward(ops)) == []


def test_a_graph_that_runs_backward_twice(tmp_path: Path) -> None:
    model, x = nn.Linear(4, 4), torch.randn(2, 4)

    def program() -> None:
        loss = model(x).sigmoid().sum()
        loss.backward(retain_graph=True)
        loss.backward()

    ops = record(tmp_path, program)
    again = names(ops, find_repeated_backward(ops))
    assert again.count("SigmoidBackward0") == 1
    assert "aten::sigmoid_backward" in again
    assert names(ops, find_unused_graph(ops)) == []


def test_a_trace_without_backward_shows_no_use(tmp_path: Path) -> None:
    ops = ops_of(tmp_path, event("aten::mm", 0, 1), event("aten::relu", 2, 1))
    assert not find_unused_graph(ops).any()
    assert not find_repeated_backward(ops).any()
