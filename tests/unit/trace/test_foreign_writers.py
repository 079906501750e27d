"""Traces of compilers, build tools and browsers, which hold no program's ops or kernels."""

from pathlib import Path
from typing import Any

import pytest

from perfkit.trace.foreign_writers import find_foreign_content
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.foreign_traces import complete, composer_events, mindspore_events, write_events, xla_events
from tests.fixtures.gpu_traces import training_events


def test_each_writer_by_its_marks() -> None:
    contents = [
        find_foreign_content(["dynamo_timed"], ["compile_inner"]),
        find_foreign_content([""], ["Total Frontend", "Frontend", "ExecuteCompiler"]),
        find_foreign_content(["project", "script", "genex_compile"], ["generate"]),
        find_foreign_content(["__metadata", "v8,devtools.timeline"], ["MinorGC"]),
    ]
    assert all(contents)
    assert len(set(contents)) == len(contents)
    assert find_foreign_content(["ipc,toplevel", "blink"], ["RunTask"]) == contents[-1]


@pytest.mark.parametrize(
    ("cats", "names"), [(["script"], ["set"]), (["toplevel"], ["main"]), (["compile"], ["Frontend"]), ([], [])]
)
def test_one_mark_of_several_is_no_writers(cats: list[str], names: list[str]) -> None:
    assert find_foreign_content(cats, names) == ""


@pytest.mark.parametrize(
    "events", [training_events(), xla_events(host="PjitFunction(step)"), mindspore_events(), composer_events()]
)
def test_a_programs_trace_is_of_no_foreign_writer(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    assert read_trace(write_events(tmp_path / "t.json", events)).foreign_content == ""


def test_begins_and_ends_of_a_compilation(tmp_path: Path) -> None:
    events = [
        {"name": name, "cat": "dynamo_timed", "ph": phase, "ts": ts, "pid": 0, "tid": 3, "args": {"compile_id": "2/1"}}
        for name, phase, ts in (
            ("dynamo", "B", 70.0), ("lower", "B", 90.0), ("lower", "E", 410.0), ("dynamo", "E", 930.0)
        )
    ]  # fmt: skip
    trace = read_trace(write_events(tmp_path / "t.json", [*events, complete("late", 0, 3, 950.0, 5.0, cat="other")]))
    assert trace.foreign_content == find_foreign_content(["dynamo_timed"], [])
