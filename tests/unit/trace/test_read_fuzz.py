"""Traces of any structure, cut and damaged anywhere: read, or refused with one line that names the file."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfkit.core.errors import RunFormatError
from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.model import Trace
from perfkit.trace.readers.trace_reader import read_trace

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=2**60, max_value=2**70)
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["7", "0x1f", "NaN", 'a"b', "}, {", "], ", 1e300, -1, 1682725898236567.125, 2**63, 1e17])
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)
ARGS = (
    "External id",
    "correlation",
    "device",
    "stream",
    "Input Dims",
    "Input type",
    "Sequence number",
    "bytes",
    "size",
)
arguments = st.dictionaries(
    st.sampled_from((*ARGS, "Addr", "Bytes", "Collective name", "dtype", "name", "hlo_op")), anything
)
events = st.fixed_dictionaries(
    {"ph": st.sampled_from("XXXXBEsfiM") | anything},
    optional={
        "cat": st.sampled_from(["cpu_op", "kernel", "ac2g", "gpu_memcpy"]) | anything,
        "name": st.sampled_from(["[memory]", "process_name", "thread_name"]) | anything,
        "pid": anything,
        "tid": anything,
        "id": anything,
        "ts": st.floats(0, 1e6) | anything,
        "dur": st.floats(0, 1e6) | anything,
        "args": arguments | anything,
    },
)
lists = st.lists(events | scalars, max_size=6)
files = lists | st.dictionaries(
    st.sampled_from(("traceEvents", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "x")),
    lists | anything,
)
settled = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def read_or_refuse(path: Path, content: bytes) -> Trace | None:
    path.write_bytes(content)
    refusal = ""
    try:
        trace = read_trace(path)
    except RunFormatError as error:
        refusal = str(error)
    if refusal:
        assert refusal.startswith(str(path))
        assert "\n" not in refusal
        return None
    assert (trace.end_ns >= trace.start_ns).all()
    assert (trace.start_ns[1:] >= trace.start_ns[:-1]).all()
    for name in ("name", "thread", "signature", "collective"):
        assert (getattr(trace, name) < len(getattr(trace, {"name": "names"}.get(name, name + "s")))).all()
    return trace


@settled
@given(value=files, indent=st.sampled_from([None, 2]))
def test_any_structure(tmp_path: Path, value: Any, indent: int | None) -> None:
    read_or_refuse(tmp_path / "t", json.dumps(value, indent=indent).encode())


@settled
@given(value=lists, data=st.data())
def test_any_damage(tmp_path: Path, value: Any, data: st.DataObject) -> None:
    whole = json.dumps({"traceEvents": value, "deviceProperties": []}).encode()
    at = data.draw(st.integers(0, len(whole)))
    kind = data.draw(st.sampled_from(["cut", "insert", "drop"]))
    rest = {"cut": b"", "insert": data.draw(st.binary(max_size=4)) + whole[at:], "drop": whole[at + 1 :]}[kind]
    read_or_refuse(tmp_path / "t", whole[:at] + rest)


whole_events = st.builds(
    lambda name, start, length, extra: {
        "ph": "X",
        "name": name,
        "ts": start / 1000,
        "dur": length / 1000,
        "args": extra,
    },
    st.text(max_size=8),
    st.integers(0, 2**50),
    st.integers(0, 10**9),
    st.dictionaries(
        st.text(max_size=4), anything.filter(lambda value: not {"N", "I"} & {*json.dumps(value)}), max_size=2
    ),
)


@pytest.mark.parametrize("separators", [(",", ":"), pytest.param((" , ", " : "), marks=pytest.mark.nightly)])
@settled
@given(value=st.lists(whole_events, max_size=5), before=st.text(max_size=9))
def test_every_whole_event_is_read_exactly(tmp_path: Path, separators: Any, value: Any, before: str) -> None:
    text = json.dumps({"before": [{"ph": before}], "traceEvents": value, "after": [{"ph": "X"}]}, separators=separators)
    trace = read_or_refuse(tmp_path / "t", text.encode())
    assert trace is not None
    expected = sorted(
        (round(each["ts"] * 1000), round(each["dur"] * 1000), escape_control_chars(each["name"])) for each in value
    )
    found = zip(trace.start_ns, trace.end_ns - trace.start_ns, (trace.names[each] for each in trace.name), strict=True)
    assert sorted((int(a), int(b), c) for a, b, c in found) == expected
    assert trace.notes == ()
