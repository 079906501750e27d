"""Each name is asked once, and only where it occurs."""

from pathlib import Path

import numpy as np

from perfkit.trace.event_names import EventNames, map_names, mark_named
from perfkit.trace.model import Trace
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import op, write_trace


def loaded(tmp_path: Path, names: str) -> Trace:
    return read_trace(write_trace(tmp_path / "trace.json.gz", [op(name, 2 * at, 1) for at, name in enumerate(names)]))


def test_each_name_that_occurs_is_asked_once_and_no_other(tmp_path: Path) -> None:
    trace = loaded(tmp_path, "abac")
    asked: list[str] = []

    def test(name: str) -> bool:
        asked.append(name)
        return name == "a"

    assert mark_named(trace, np.asarray([0, 1, 2]), test).tolist() == [True, False, True]
    assert sorted(asked) == ["a", "b"]


def test_no_events_have_no_names(tmp_path: Path) -> None:
    trace = loaded(tmp_path, "a")
    nothing = np.empty(0, np.int64)
    assert EventNames.from_events(trace, nothing).occurring == []
    assert len(mark_named(trace, nothing, bool)) == 0
    events, values = map_names(trace, nothing, len)
    assert len(events) == 0
    assert values == {}
