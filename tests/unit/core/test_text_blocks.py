"""Limits on what a file may hold."""

import gzip
import json
from itertools import count
from pathlib import Path

import pytest

from perfkit.core import text_blocks
from perfkit.core.errors import RunFormatError
from perfkit.core.text_blocks import ReadLimits
from perfkit.trace.readers.trace_reader import read_trace


def test_a_bomb_stops_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * (8 << 20)))
    with pytest.raises(RunFormatError, match=rf"^{path}: more than 4194304 bytes of text in a file of .* --max-bytes"):
        read_trace(path, limits=ReadLimits(json_bytes=4 << 20))


def test_limits() -> None:
    assert ReadLimits().compute_allowed_bytes(10 << 20) == 250 * (10 << 20)
    assert ReadLimits().compute_allowed_bytes(1000) == 512 << 20
    assert ReadLimits().compute_allowed_bytes(0) == 16 << 30, "a pipe's size is not known"
    assert ReadLimits().compute_allowed_bytes(1 << 40) == 16 << 30
    assert ReadLimits(json_bytes=5).compute_allowed_bytes(1 << 40) == 5


def test_after_so_much_time_the_rest_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves on a second with each of 2 MiB."""
    monkeypatch.setattr(text_blocks, "monotonic", count().__next__)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([{"ph": "X", "name": "x" * 1000, "ts": index, "dur": 1} for index in range(8_000)]))
    assert len(read_trace(path)) == 8_000
    cut = read_trace(path, limits=ReadLimits(seconds=4))
    assert 1_000 < len(cut) < 5_000
    assert cut.cut
    assert cut.notes[0].id == "reading.time_limit"
    assert "4.00 s" in cut.notes[0].text


def test_names_beyond_the_limit_are_counted_together(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(json.dumps([{"ph": "X", "name": str(index), "ts": index, "dur": 1} for index in range(9)]))
    trace = read_trace(path, limits=ReadLimits(names=4))
    assert [*trace.names[:4]] == ["0", "1", "2", "3"]
    assert len(trace.names) == 5
    assert trace.name.tolist() == [0, 1, 2, 3, 4, 4, 4, 4, 4]
    assert (trace.notes[0].id, trace.notes[0].figures) == ("reading.names", {"count": 5})


def test_several_gzip_members_and_padding(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}).encode()
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(text[:20]) + gzip.compress(text[20:]) + b"\0" * 50)
    trace = read_trace(path)
    assert (len(trace), trace.notes) == (1, ())


def test_a_small_file_with_a_wrong_checksum_is_read_all_the_same(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [{"ph": "X", "name": "a", "ts": at, "dur": 1} for at in range(1000)]}).encode()
    packed = bytearray(gzip.compress(text))
    packed[-6] ^= 0xFF
    path = tmp_path / "trace"
    path.write_bytes(packed)
    trace = read_trace(path)
    assert len(trace) == 1000
    assert trace.notes[0].id == "reading.damaged"
