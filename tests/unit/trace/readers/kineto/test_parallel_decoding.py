"""A trace read by several processes is the trace read by one."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.trace.model import Trace
from perfkit.trace.readers.kineto import kineto_reader
from perfkit.trace.readers.trace_reader import read_trace


def events(count: int) -> list[dict[str, Any]]:
    return [
        {
            "ph": "X", "cat": "cpu_op", "name": f"op{index % 1000}", "pid": 1, "tid": index % 7, "ts": index + 0.125,
            "dur": 5, "args": {"External id": index, "Input Dims": [[index % 50]], "Input type": ["float"],
                     "grid": [index % 30, 1, 1]},
        }
        for index in range(count)
    ]  # fmt: skip


def same(first: Trace, second: Trace) -> None:
    for field in fields(Trace):
        a, b = getattr(first, field.name), getattr(second, field.name)
        if isinstance(a, np.ndarray):
            assert np.array_equal(a, b), field.name
        elif field.name == "untimed":
            assert [column.tolist() for column in a] == [column.tolist() for column in b]
        elif field.name not in ("flows", "memory", "syncs", "counters"):
            assert a == b, field.name


@pytest.fixture(scope="module")
def whole() -> str:
    return json.dumps(
        {"traceEvents": events(40_000), "deviceProperties": [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}]}
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, pytest.param(3, marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text,
        lambda text: text[:-1_000_000],
        pytest.param(lambda text: text.replace('"op999"', '"o"p999"', 20), marks=pytest.mark.nightly),
        lambda text: text.replace('"op7"', "null"),
    ],
    ids=["whole", "cut", "quotes", "nulls"],
)
def test_helpers_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, damage: Callable[[str], str], whole: str
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(damage(whole))
    alone = read_trace(path)
    assert len(alone) > 30_000
    monkeypatch.setattr(kineto_reader, "_SHARED_FROM", 1 << 20)
    same(read_trace(path, workers=workers), alone)


def test_a_helper_that_dies_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(whole)
    alone = read_trace(path)
    monkeypatch.setattr(kineto_reader, "_SHARED_FROM", 1 << 20)
    monkeypatch.setattr("sys.executable", "false")
    same(read_trace(path, workers=2), alone)
