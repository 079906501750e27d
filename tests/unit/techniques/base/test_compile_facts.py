"""Recompilations as torch's compilation metrics show them."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from perfkit.techniques.base.compile_facts import (
    collect_compile_facts,
    collect_compile_notes,
    collect_recompilations,
    remember_compilations,
)


def graph(number: str, reason: str | None = None, us: int = 100_000, fail: str | None = None) -> Any:
    """A forward graph; one that was not made since `fail`."""
    named = {"co_name": None if fail else "forward", "co_filename": None if fail else "/home/u/net.py"}
    return SimpleNamespace(
        compile_id=number,
        co_firstlineno=31,
        recompile_reason=reason,
        duration_us=us,
        fail_type=fail,
        is_forward=None if fail else True,
        shape_env_guard_count=0,
        cudagraph_skip_reason=None,
        **named,
    )


def backward(number: str, us: int) -> Any:
    return SimpleNamespace(**{**vars(graph(number, us=us)), "co_name": None, "is_forward": False})


METRICS = [
    graph("0/0"),
    backward("0/0", 7_000),
    graph("0/1", "0/0: tensor 'ids' size mismatch at index 1. expected 12, actual 17", 300_000),
    backward("0/1", 50_000),
    graph("1/0"),
    graph("1/1", "1/0: k == 1        # def f(x, k): return x * k  # net.py:3 in f\nUser stack trace:\n ...", 20_000),
    graph("0/2", "0/1: tensor 'ids' size mismatch at index 1. expected 17, actual 9", 200_000),
    graph("0/3", "0/2: tensor 'ids' size mismatch at index 1. expected 9, actual 5", 9_000, fail="Unsupported"),
]


@pytest.fixture(autouse=True)
def _metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._dynamo.utils, "get_compilation_metrics", lambda: METRICS)
    monkeypatch.setitem(torch._dynamo.utils.counters["stats"], "unique_graphs", 5)


def test_recompilations_by_function_and_guard_with_forward_and_backward_time() -> None:
    sizes, value = collect_recompilations()
    assert (sizes.function, sizes.count, sizes.limited) == ("forward (net.py:31)", 2, True)
    assert sizes.guard == "tensor 'ids' size mismatch at index 1. expected 17, actual 9"
    assert sizes.seconds == pytest.approx(0.55)
    assert (value.guard, value.count, value.limited) == ("k == 1", 1, False)
    assert value.seconds == pytest.approx(0.02)


def test_a_graph_that_the_limit_forbids_is_no_recompilation() -> None:
    assert collect_compile_facts()["recompiles"] == 3
    assert "actual 5" not in collect_compile_notes()["recompiles"]


def test_torch_remembers_more_compilations_than_64(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []
    monkeypatch.setattr(torch._dynamo.utils, "set_compilation_metrics_limit", limits.append)
    remember_compilations()
    assert limits[0] > 64


def test_a_program_that_did_not_import_the_compiler_does_not_do_so_for_this(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo")
    assert (collect_recompilations(), collect_compile_facts()) == ((), {})
    assert collect_compile_facts(asked=True) == {"graphs": 0.0}


def test_a_wrapper_of_dynamos_has_no_line_of_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = {"co_name": "inner", "co_filename": "/site-packages/torch/_dynamo/external_utils.py"}
    graphs = [graph("0/0"), graph("0/1", "0/0: tensor 'args[0]' size mismatch at index 0. expected 8, actual 9")]
    made = [SimpleNamespace(**{**vars(each), **wrapper}) for each in graphs]
    monkeypatch.setattr(torch._dynamo.utils, "get_compilation_metrics", lambda: made)
    (row,) = collect_recompilations({"0/1": 41})
    assert "external_utils" not in row.function
    assert (row.argument, row.dimension, row.values, row.steps) == ("args[0]", 0, ("8", "9"), (41,))
