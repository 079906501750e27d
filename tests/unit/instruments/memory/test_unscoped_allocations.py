"""What torch's profiler writes to its trace and leaves out of its tree."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import record_function

from perfkit.instruments.memory import allocation_profiler
from perfkit.instruments.memory.profiler_events import ProfiledAllocation, RecordedEvents
from perfkit.instruments.memory.unscoped_allocations import add_unscoped, read_written_allocations

GPU = torch.device("cuda", 0)


def event(time_ns: int, address: int, size: int, device: torch.device = GPU) -> dict[str, Any]:
    """As torch writes it."""
    arguments = {
        "Total Reserved": 0, "Total Allocated": 1024, "Bytes": size, "Device Id": -1 if device.index is None else 0,
        "Device Type": {"cpu": 0, "cuda": 1, "mtia": 19}[device.type], "Addr": address, "finished": False, "Ev Idx": 0,
    }  # fmt: skip
    return {"ph": "i", "name": "[memory]", "ts": time_ns / 1000, "args": arguments}


class Result:
    """The result of a profiler that wrote these events."""

    def __init__(self, *events: dict[str, Any]) -> None:
        others = [{"ph": "M", "name": "process_name", "ts": 0}, {"ph": "X", "name": "aten::mm", "ts": 1, "dur": 2}]
        self.text = json.dumps({"traceEvents": [*others, *events], "baseTimeNanoseconds": 10**18})

    def save(self, path: str) -> None:
        Path(path).write_text(self.text)


def recorded(*allocations: ProfiledAllocation) -> RecordedEvents:
    return RecordedEvents([*allocations], [], [], {})


def told(event: ProfiledAllocation) -> tuple[int, int, int, torch.device, int]:
    return event.time_ns, event.address, event.size, event.device, event.allocated


@pytest.mark.parametrize("ops", [False, True])
def test_the_trace_tells_of_an_allocation_what_the_tree_does(
    ops: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = []

    def kept(tree: RecordedEvents, result: Any) -> RecordedEvents:
        found.append((tree, result))
        return tree

    monkeypatch.setattr(allocation_profiler, "add_unscoped", kept)
    model = nn.Sequential(nn.Linear(33, 17), nn.GELU(), nn.Linear(17, 5))
    with allocation_profiler.AllocationProfiler(ops=ops), record_function("a range"):
        model(torch.randn(7, 33)).sum().backward()
    ((tree, result),) = found
    result.save(str(tmp_path / "trace.json"))
    written = read_written_allocations((tmp_path / "trace.json").read_bytes())
    assert len(written) > 10
    assert [told(each) for each in sorted(written, key=lambda each: each.time_ns)] == [*map(told, tree.allocations)]


def test_what_is_in_no_range_comes_in_its_place() -> None:
    (first, late) = read_written_allocations(Result(event(1001, 64, 512), event(3003, 64, -512)).text.encode())
    result = Result(event(1001, 64, 512), event(2002, 4096, 256), event(3003, 64, -512))
    with_all = add_unscoped(recorded(first, late), result).allocations
    assert [(each.time_ns - 10**18, each.address, each.size) for each in with_all] == [
        (1001, 64, 512), (2002, 4096, 256), (3003, 64, -512)
    ]  # fmt: skip
    assert with_all[0] is first
    assert with_all[1].device == GPU


def test_devices_that_are_none_of_perfkits_are_left_out() -> None:
    text = Result(event(1, 64, 512, torch.device("mtia", 0)), event(2, 64, 512, torch.device("cpu"))).text
    assert [each.device.type for each in read_written_allocations(text.encode())] == ["cpu"]


def test_a_cpus_recording_has_all_in_its_tree() -> None:
    tree = recorded(*read_written_allocations(Result(event(1, 64, 512, torch.device("cpu"))).text.encode()))
    assert add_unscoped(tree, None) is tree
