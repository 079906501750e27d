"""The allocator's history with a fake torch.cuda.memory: options, what is written, and that recording always ends."""

import gzip

import msgspec
import pytest
import torch

from perfkit.instruments.memory.allocator_history import record_allocator_history
from perfkit.trace.memory.snapshot import read_snapshot
from tests.fixtures.allocator_history import AllocatorHistory

CUDA = torch.device("cuda", 0)


class OlderMemory(AllocatorHistory):
    """Without the options that came later."""

    def _record_memory_history(self, enabled="all", context="all", stacks="all", max_entries=1, device=None):
        self.calls.append((enabled, {"context": context, "stacks": stacks, "max_entries": max_entries}))


@pytest.fixture
def memory(monkeypatch):
    return AllocatorHistory().install(monkeypatch)


def written(path):
    return msgspec.json.decode(gzip.decompress(path.read_bytes()))


def test_the_snapshot_of_the_body_is_written(memory, tmp_path):
    path = tmp_path / "rank0" / "history.json.gz"
    with record_allocator_history(path, CUDA, max_entries=1000):
        assert memory.calls == [
            (
                "all",
                {"context": "alloc", "stacks": "python", "max_entries": 1000, "clear": True, "annotations": True},
            )
        ]
        memory.allocate(512)
    assert memory.calls[1] == "snapshot"
    assert memory.calls[2][0] is None
    found = written(path)
    assert [entry["size"] for entry in found["device_traces"][0]] == [512]
    assert found["segments"][0]["segment_pool_id"] == [0, 0]


def test_a_run_out_of_memory_leaves_its_history(memory, tmp_path):
    def step():
        memory.allocate(512)
        raise torch.OutOfMemoryError("CUDA out of memory.")

    path = tmp_path / "history.json.gz"
    with pytest.raises(torch.OutOfMemoryError), record_allocator_history(path, CUDA):
        step()
    assert memory.calls[-1][0] is None
    assert written(path)["device_traces"][0]


def test_a_history_of_the_programs_own_is_left_alone(memory, tmp_path):
    memory._record_memory_history(max_entries=7)
    memory.allocate(1)
    told: list[str] = []
    with record_allocator_history(tmp_path / "history.json.gz", CUDA, tell=told.append):
        memory.allocate(2)
    memory.allocate(3)
    assert [entry["size"] for entry in memory.entries] == [1, 2, 3]
    assert len(memory.calls) == 1, "nothing was asked of it beside what the program itself did"
    assert ["records its own" in line for line in told] == [True]
    assert not (tmp_path / "history.json.gz").exists()


def test_a_history_that_the_program_begins_meanwhile_goes_on(memory, tmp_path):
    told: list[str] = []
    with record_allocator_history(tmp_path / "history.json.gz", CUDA, tell=told.append):
        memory._record_memory_history(enabled="state")
        memory.allocate(2)
    memory.allocate(3)
    assert [entry["size"] for entry in memory.entries] == [2, 3]
    assert ["started or stopped" in line for line in told] == [True]
    assert not (tmp_path / "history.json.gz").exists()
    with record_allocator_history(tmp_path / "history.json.gz", CUDA, tell=told.append):
        memory._record_memory_history(enabled=None)
    assert not memory.on
    assert len(told) == 2


def test_nobody_is_listened_to_afterwards(memory, tmp_path):
    with record_allocator_history(tmp_path / "history.json.gz", CUDA):
        pass
    assert memory._record_memory_history.__func__ is AllocatorHistory._record_memory_history


def test_without_a_way_to_ask_the_history_is_left_alone(memory, tmp_path, monkeypatch, caplog):
    monkeypatch.delattr(torch._C, "_cuda_isHistoryEnabled")
    with record_allocator_history(tmp_path / "history.json.gz", CUDA):
        pass
    assert memory.calls == []
    assert "torch version" in caplog.text, "who gives no `tell` has it in the log"


def test_an_allocator_that_keeps_no_history_is_not_asked_for_one(tmp_path, monkeypatch):
    memory = AllocatorHistory().install(monkeypatch, backend="cudaMallocAsync")
    told: list[str] = []
    with record_allocator_history(tmp_path / "history.json.gz", CUDA, tell=told.append):
        pass
    assert memory.calls == []
    assert ["cudaMallocAsync" in line for line in told] == [True]


def test_recording_ends_though_there_is_no_snapshot(memory, tmp_path, monkeypatch):
    def broken():
        raise RuntimeError("no snapshot")

    monkeypatch.setattr(memory, "_snapshot", broken)
    with pytest.raises(RuntimeError, match="no snapshot"), record_allocator_history(tmp_path / "history.json.gz", CUDA):
        pass
    assert memory.calls[-1][0] is None


def test_an_older_torch_is_asked_for_what_it_knows(monkeypatch, tmp_path):
    older = OlderMemory().install(monkeypatch)
    with record_allocator_history(tmp_path / "history.json.gz", CUDA):
        pass
    assert older.calls[0] == ("all", {"context": "alloc", "stacks": "python", "max_entries": 200_000})


def test_this_torch_knows_every_option(tmp_path):
    from perfkit.instruments.memory.allocator_history import _select_options

    known = _select_options(torch.cuda.memory._record_memory_history, 5)
    assert known["global_record_annotations"] is True
    assert known["max_entries"] == 5


def test_nothing_on_a_cpu(memory, tmp_path):
    path = tmp_path / "history.json.gz"
    with record_allocator_history(path, torch.device("cpu")):
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
    with record_allocator_history(tmp_path / "history.json.gz", CUDA):
        pass
    (found,) = read_snapshot(tmp_path / "history.json.gz").allocations
    assert found.size.tolist() == [512]
    assert found.get_text(found.line, 0) == "mine.py:7 forward"
    assert found.reserved.size.tolist() == [2**21]
