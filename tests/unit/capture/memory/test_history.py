"""The allocator's history with a fake torch.cuda.memory: options, what is written, and that recording always ends."""

import gzip

import msgspec
import pytest
import torch

from perfkit.capture.memory.history import allocator_history
from perfkit.trace.memory.snapshot import read_snapshot

CUDA = torch.device("cuda", 0)
SNAPSHOT = {
    "segments": [{"address": 2**47, "total_size": 2**21, "segment_pool_id": (0, 0), "blocks": []}],
    "device_traces": [[{"action": "alloc", "addr": 2**47, "size": 512, "frames": [{"filename": "a.py", "line": 3}]}]],
}


class FakeMemory:
    """Stands for torch.cuda.memory: notes the calls."""

    def __init__(self):
        self.calls = []

    def _record_memory_history(
        self,
        enabled="all",
        context="all",
        stacks="all",
        max_entries=1,
        device=None,
        clear_history=False,
        global_record_annotations=False,
    ):
        options = {"context": context, "stacks": stacks, "max_entries": max_entries, "clear": clear_history}
        self.calls.append((enabled, {**options, "annotations": global_record_annotations}))

    def _snapshot(self):
        self.calls.append("snapshot")
        return SNAPSHOT


class OlderMemory(FakeMemory):
    """Without the options that came later."""

    def _record_memory_history(self, enabled="all", context="all", stacks="all", max_entries=1, device=None):
        self.calls.append((enabled, {"context": context, "stacks": stacks, "max_entries": max_entries}))


@pytest.fixture
def memory(monkeypatch):
    fake = FakeMemory()
    monkeypatch.setattr(torch.cuda, "memory", fake)
    return fake


def written(path):
    return msgspec.json.decode(gzip.decompress(path.read_bytes()))


def test_the_snapshot_of_the_body_is_written(memory, tmp_path):
    path = tmp_path / "rank0" / "history.json.gz"
    with allocator_history(path, CUDA, max_entries=1000):
        assert memory.calls == [
            (
                "all",
                {"context": "alloc", "stacks": "python", "max_entries": 1000, "clear": True, "annotations": True},
            )
        ]
    assert memory.calls[1] == "snapshot"
    assert memory.calls[2][0] is None
    found = written(path)
    assert found["device_traces"] == SNAPSHOT["device_traces"]
    assert found["segments"][0]["segment_pool_id"] == [0, 0]


def test_a_run_out_of_memory_leaves_its_history(memory, tmp_path):
    path = tmp_path / "history.json.gz"
    with pytest.raises(torch.OutOfMemoryError), allocator_history(path, CUDA):
        raise torch.OutOfMemoryError("CUDA out of memory.")
    assert memory.calls[-1][0] is None
    assert written(path)["device_traces"]


def test_recording_ends_though_there_is_no_snapshot(memory, tmp_path, monkeypatch):
    def broken():
        raise RuntimeError("no snapshot")

    monkeypatch.setattr(memory, "_snapshot", broken)
    with pytest.raises(RuntimeError, match="no snapshot"), allocator_history(tmp_path / "history.json.gz", CUDA):
        pass
    assert memory.calls[-1][0] is None


def test_an_older_torch_is_asked_for_what_it_knows(monkeypatch, tmp_path):
    older = OlderMemory()
    monkeypatch.setattr(torch.cuda, "memory", older)
    with allocator_history(tmp_path / "history.json.gz", CUDA):
        pass
    assert older.calls[0] == ("all", {"context": "alloc", "stacks": "python", "max_entries": 200_000})


def test_this_torch_knows_every_option(tmp_path):
    from perfkit.capture.memory.history import _options

    known = _options(torch.cuda.memory._record_memory_history, 5)
    assert known["global_record_annotations"] is True
    assert known["max_entries"] == 5


def test_nothing_on_a_cpu(memory, tmp_path):
    path = tmp_path / "history.json.gz"
    with allocator_history(path, torch.device("cpu")):
        pass
    assert memory.calls == []
    assert not path.exists()


def test_what_is_written_is_read_as_a_snapshot(memory, tmp_path, monkeypatch):
    frames = [{"filename": "mine.py", "name": "forward", "line": 7}]
    entry = {"addr": 2**47, "size": 500, "stream": 0, "time_us": 1, "frames": frames}
    block = {"address": 2**47, "size": 512, "requested_size": 500, "state": "active_allocated", "frames": frames}
    segment = {
        "device": 0, "address": 2**47, "total_size": 2**21, "allocated_size": 512, "active_size": 512, "stream": 0,
        "requested_size": 500, "segment_type": "small", "segment_pool_id": (0, 0), "is_expandable": False,
        "frames": [], "blocks": [block, {"address": 2**47 + 512, "size": 2**21 - 512, "requested_size": 0,
        "state": "inactive", "frames": []}],
    }  # fmt: skip
    trace = [{**entry, "action": "segment_alloc", "size": 2**21, "frames": []}, {**entry, "action": "alloc"}]
    snapshot = {"segments": [segment], "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}
    monkeypatch.setattr(memory, "_snapshot", lambda: snapshot)
    with allocator_history(tmp_path / "history.json.gz", CUDA):
        pass
    (found,) = read_snapshot(tmp_path / "history.json.gz").allocations
    assert found.size.tolist() == [512]
    assert found.text(found.line, 0) == "mine.py:7 forward"
    assert found.reserved.size.tolist() == [2**21]
