"""What a file is, is told by what is in it, whatever it is called."""

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from perfkit.core.allocations import build_allocations
from perfkit.core.errors import PerfkitError
from perfkit.store.memory_file import write_allocations
from perfkit.trace.memory.read_memory import read_memory
from tests.fixtures.caching_allocator import CachingAllocator

SNAPSHOT, TRACE, POINTS, SUMS = "allocator snapshot", "trace of torch.profiler", "raw points", "sums by category"


def snapshot() -> dict[str, object]:
    allocator = CachingAllocator()
    allocator.free(allocator.malloc(100))
    allocator.malloc(100)
    return allocator.snapshot()


def event(size: int, time_us: int) -> dict[str, object]:
    args = {"Total Allocated": 4 if size > 0 else 0, "Bytes": size, "Addr": 5, "Device Id": -1, "Device Type": 0}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": time_us, "args": args}


def trace(*more: dict[str, object]) -> dict[str, object]:
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": 1, "ts": 9, "dur": 5}
    return {"schemaVersion": 1, "traceEvents": [op, *more]}


FILES: dict[str, tuple[bytes, str]] = {
    "a pickled snapshot": (pickle.dumps(snapshot()), SNAPSHOT),
    "one of protocol 2": (pickle.dumps(snapshot(), 2), SNAPSHOT),
    "a list of segments": (pickle.dumps(snapshot()["segments"]), SNAPSHOT),
    "a snapshot as JSON": (json.dumps(snapshot()).encode(), SNAPSHOT),
    "segments as JSON": (json.dumps(snapshot()["segments"]).encode(), SNAPSHOT),
    "a trace": (json.dumps(trace(event(4, 10), event(-4, 12))).encode(), TRACE),
    "points": (b"[[-1, 1, 5, 0], [1, 4, -5, 0]]", POINTS),
    "sums": (b"[[1, 2], [[0, 5, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0]]]", SUMS),
}


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
@pytest.mark.parametrize("name", FILES)
def test_kinds(tmp_path: Path, name: str, packed: Callable[[bytes], bytes]) -> None:
    data, kind = FILES[name]
    path = tmp_path / "file"
    path.write_bytes(packed(data))
    file = read_memory(path)
    assert kind in file.kind
    assert file.allocations


def test_what_perfkit_recorded(tmp_path: Path) -> None:
    path = tmp_path / "memory.parquet"
    columns = {"time_ns": [1, 2], "address": [5, 5], "size": [8, -8]}
    write_allocations(path, build_allocations(device="cpu", source="test", **columns))
    (found,) = read_memory(path).allocations
    assert np.array_equal(found.size, [8, -8])


WRONG = {
    "a trace without memory": (json.dumps(trace()).encode(), "profile_memory=True"),
    "nothing": (b"", "is empty"),
    "text": (b"hello", "expected a snapshot"),
    "a parquet file of something else": (b"PAR1" + bytes(100), ""),
    "a zip archive": (b"PK\3\4" + bytes(100), "zip"),
    "a picture of a timeline": (b"<html>", ".raw.json.gz"),
    "JSON of something else": (b'{"a": 1}', ""),
    "a pickle of something else": (pickle.dumps(Path("x")), "PosixPath"),
    "half a pickle": (FILES["a pickled snapshot"][0][:-9], "bytes"),
    "half a gzip file": (gzip.compress(FILES["a pickled snapshot"][0])[:-20], ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_none_of_these_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    data, says = WRONG[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(PerfkitError) as caught:
        read_memory(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PerfkitError, match="nowhere"):
        read_memory(tmp_path / "nowhere")
    with pytest.raises(PerfkitError, match="folder"):
        read_memory(tmp_path)
