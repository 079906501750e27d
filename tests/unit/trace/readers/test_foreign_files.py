"""Files that are no traces are told what they are; traces of any beginning are left alone."""

import json
import pickle
import sqlite3
from pathlib import Path

import pytest

from perfkit.core.errors import RunFormatError
from perfkit.trace.readers.foreign_files import find_foreign_hint
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import op, write_trace

CHAKRA = {"schema": "1.1.0-chakra.0.0.4", "pid": 7, "time": "2026", "start_ts": 0, "nodes": [{"id": 1}]}


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("snapshot.pickle", pickle.dumps({"segments": []}, 4), "perfkit memory"),
        ("snapshot.json", json.dumps({"segments": [], "device_traces": []}).encode(), "perfkit memory"),
        ("memory.parquet", b"PAR1....", "perfkit memory"),
        ("rank0_et.json", json.dumps(CHAKRA, indent=2).encode(), "Chakra"),
        ("chakra.0.et", b"\x0b\x0a\x050.0.4", "Chakra"),
        ("run.qdrep", b"NVTX\x00\x01", "Nsight Systems"),
        ("run.ncu-rep", b"NVR\x00", "--counters"),
        ("timeline.raw", json.dumps([[-1, 1, 768, 5], [17, 2, 768, 5]]).encode(), "perfkit memory"),
        ("weights.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:0f\nsize 77\n", "git lfs pull"),
        ("rank_3.log", b'V0316 04:05:06.789000 41 torch/_logging/structured.py:22] {"str": ["a", 0]}\n', "tlparse"),
    ],
)
def test_each_kind_is_told_with_what_to_do(tmp_path: Path, name: str, content: bytes, named: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RunFormatError) as raised:
        read_trace(tmp_path / name)
    assert raised.value.id == "file.unreadable"
    assert name in str(raised.value)
    assert named in str(raised.value)


def test_a_database_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "renamed.json") as database:
        database.execute("create table kernels(name)")
    with pytest.raises(RunFormatError, match="SQLite"):
        read_trace(tmp_path / "renamed.json")


@pytest.mark.parametrize("name", ["a.et", "c.qdrep"])
def test_a_trace_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    assert len(read_trace(write_trace(tmp_path / name, [op("aten::mm", 0, 10)]))) == 1


def test_a_trace_whose_metadata_comes_first_is_no_execution_trace() -> None:
    head = json.dumps({"schema": "x", "traceEvents": [], "nodes": []}).encode()
    assert find_foreign_hint("trace.json", head) == ""
