"""Snapshots against an allocator whose counters are known."""

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfkit.core.allocations import NONE, Allocations
from perfkit.core.errors import PerfkitError
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.memory.snapshot import SOURCE, parse_snapshot, read_snapshot
from tests.fixtures.caching_allocator import CachingAllocator


def allocated(result: Allocations) -> list[int]:
    """The allocator's count after each event."""
    start = sum(block.size_bytes for block in result.known) + result.unexplained_bytes
    return (start + np.cumsum(result.size)).tolist()


def reserved(result: Allocations) -> int:
    return int(result.reserved.size.sum())


def only(snapshot: dict[str, Any]) -> Allocations:
    (result,) = parse_snapshot(snapshot, "x").allocations
    return result


SIZES = st.one_of(st.integers(1, 4096), st.integers(1 << 19, 3 << 20), st.integers(1 << 20, 30 << 20))
ACTIONS = st.lists(st.tuples(st.integers(0, 9), SIZES, st.integers(0, 1 << 30)), max_size=80)


def play(allocator: CachingAllocator, actions: list[tuple[int, int, int]], live: list[int], waiting: list[int]) -> None:
    for kind, size, which in actions:
        if kind < 5:
            live.append(allocator.malloc(size))
        elif kind < 8 and live:
            allocator.free(live.pop(which % len(live)))
        elif kind == 8 and live:
            address = live.pop(which % len(live))
            allocator.free(address, waits=True)
            waiting.append(address)
        elif waiting:
            allocator.complete(waiting.pop(which % len(waiting)))
        else:
            allocator.empty_cache()


# A block of the next segment lay at the end of the first one's, and is gone as the first is made again.
NEIGHBOURS = [(0, 13630977, 0), (0, 1048577, 0), (5, 1, 1), (5, 1, 0), (0, 13630977, 0), (5, 1, 0)]


@example(NEIGHBOURS)
@given(ACTIONS)
def test_every_moment_is_the_allocators_own_count(actions: list[tuple[int, int, int]]) -> None:
    allocator = CachingAllocator()
    play(allocator, actions, [], [])
    if allocator.trace:
        result = only(allocator.snapshot())
        assert allocated(result) == allocator.history
        assert reserved(result) == allocator.reserved


@given(ACTIONS, ACTIONS)
def test_a_history_that_begins_late_ends_balanced(before: list[Any], after: list[Any]) -> None:
    allocator, live, waiting = CachingAllocator(), [], []
    allocator.recording = False
    play(allocator, before, live, waiting)
    allocator.recording = True
    play(allocator, after, live, waiting)
    if allocator.segments():
        result = only(allocator.snapshot())
        assert reserved(result) == allocator.reserved
        if len(result):
            assert allocated(result)[-1] == allocator.allocated


SITE = "/opt/lib/python3.11/site-packages"


def frames(*rows: tuple[str, str]) -> list[dict[str, Any]]:
    """Frames of `(file, function)`, the innermost first, in line 7."""
    return [{"filename": file, "line": 7, "name": function} for file, function in rows]


LINEAR = frames(
    (f"{SITE}/torch/nn/modules/linear.py", "forward"),
    (f"{SITE}/torch/nn/modules/module.py", "_call_impl"),
    ("/home/me/model.py", "forward"),
    ("/home/me/train.py", "main"),
)
STATE = frames((f"{SITE}/torch/optim/adamw.py", "_init_group"), (f"{SITE}/torch/optim/optimizer.py", "step"))
STEP = frames((f"{SITE}/torch/optim/sgd.py", "_multi_tensor_sgd"), (f"{SITE}/torch/optim/sgd.py", "step"))
DATA = frames(("/home/me/train.py", "main"))


def training() -> CachingAllocator:
    """Two steps: a batch, an activation, on a thread without Python its gradient, the optimizer's state and scratch."""
    allocator = CachingAllocator()
    for step in range(2):
        batch = allocator.malloc(1000, DATA)
        activation = allocator.malloc(2000, LINEAR)
        gradient = allocator.malloc(3000, [])
        allocator.free(activation)
        if step == 0:
            allocator.malloc(4000, STATE)
        scratch = allocator.malloc(5000, STEP)
        allocator.free(scratch)
        if step == 0:
            allocator.malloc(6000, STEP)
        allocator.free(gradient, DATA)
        allocator.free(batch)
    return allocator


def told(result: Allocations) -> list[tuple[int, str, str, str, str, int]]:
    """Of each event: bytes, phase, op, line, category and step."""
    return [
        (
            int(result.size[at]),
            PHASES[result.phase[at]] if result.phase[at] != NONE else "",
            result.get_text(result.op, at),
            result.get_text(result.line, at),
            result.get_text(result.category, at),
            int(result.step[at]),
        )
        for at in range(len(result))
    ]


def test_stacks_tell_phases_places_and_purposes() -> None:
    result = only(training().snapshot())
    user, model = "me/train.py:7 main", "me/model.py:7 forward"
    assert told(result)[:10] == [
        (1024, "data", "", user, "", 0),  # before forward, in both steps
        (2048, "forward", "linear", model, "", 0),
        (3072, "backward", "", "", "", 0),
        (-2048, "backward", "", "", "", 0),  # its stack is the allocation's: it tells nothing of the free
        (4096, "optimizer", "_init_group", "", "optimizer state", 0),
        (5120, "optimizer", "_multi_tensor_sgd", "", "temporary", 0),
        (-5120, "optimizer", "", "", "", 0),
        (6144, "optimizer", "_multi_tensor_sgd", "", "optimizer state", 0),
        (-3072, "optimizer", "", "", "", 0),
        (-1024, "optimizer", "", "", "", 0),
    ]
    assert [each[5] for each in told(result)[10:]] == [1] * 8
    assert [(band.kind, band.name) for band in result.bands if band.kind == "phase"] == [
        ("phase", name) for name in ("data", "forward", "backward", "optimizer") * 2
    ]
    assert result.visit.max() == 8


def test_what_a_program_sets_up_once_is_no_batch() -> None:
    allocator = CachingAllocator()
    allocator.malloc(7000, frames(("/home/me/train.py", "set_up")))
    for _ in range(2):
        batch = allocator.malloc(1000, DATA)
        allocator.free(allocator.malloc(2000, LINEAR))
        allocator.free(allocator.malloc(3000, STEP))
        allocator.free(batch)
    result = only(allocator.snapshot())
    made = [(size, phase) for size, phase, *_ in told(result) if size > 0]
    step = [(1024, "data"), (2048, "forward"), (3072, "optimizer")]
    assert made == [(7168, ""), *step, *step]


def test_what_is_reduced_into_is_the_gradient_if_it_outlives_backward() -> None:
    fsdp = f"{SITE}/torch/distributed/fsdp/_fully_shard/_fsdp"
    reduce = frames((f"{fsdp}_collectives.py", "foreach_reduce"), (f"{fsdp}_param_group.py", "post_backward"))
    allocator = CachingAllocator()
    given, result = allocator.malloc(4000, reduce), allocator.malloc(1000, reduce)
    allocator.free(given)
    allocator.malloc(10, STEP)
    allocator.free(result)
    assert [row[4] for row in told(only(allocator.snapshot()))] == [
        "communication buffer", "gradient", "", "", ""
    ]  # fmt: skip


def test_addresses_of_intels_gpus_have_64_bits() -> None:
    snapshot = training().snapshot()
    apart = 0xFF00_0000_0000_0000 - 0x7F00_0000_0000
    for entry in snapshot["device_traces"][0]:
        entry["addr"] += apart
    for segment in snapshot["segments"]:
        segment["address"] += apart
        for block in segment["blocks"]:
            block["address"] += apart
    result, expected = only(snapshot), only(training().snapshot())
    assert result.device == "xpu:0"
    assert (allocated(result), reserved(result)) == (allocated(expected), reserved(expected))


@pytest.mark.parametrize("size", [-512, 1 << 62, float("inf")])
@pytest.mark.parametrize("where", ["entry", "segment", "block"])
def test_sizes_that_no_memory_holds_are_refused(where: str, size: float) -> None:
    snapshot = training().snapshot()
    if where == "entry":
        snapshot["device_traces"][0][1]["size"] = size
    elif where == "segment":
        snapshot["segments"][0]["total_size"] = size
    else:
        snapshot["segments"][0]["blocks"][0]["size"] = size
    with pytest.raises(PerfkitError, match="write it again"):
        parse_snapshot(snapshot, "x")


def test_time_never_goes_back() -> None:
    snapshot = training().snapshot()
    entries = snapshot["device_traces"][0]
    entries[3]["time_us"] -= 5
    assert (np.diff(only(snapshot).time_ns) >= 0).all()


def test_without_all_times_the_order_counts() -> None:
    snapshot = training().snapshot()
    expected = allocated(only(training().snapshot()))
    del snapshot["device_traces"][0][3]["time_us"]
    assert allocated(only(snapshot)) == expected


def test_only_a_failed_request_beside_the_state() -> None:
    snapshot = training().snapshot()
    snapshot["device_traces"] = [[{"action": "oom", "device_free": 512, "size": 1 << 40, "frames": LINEAR}]]
    failed = only(snapshot).failed
    assert (failed.bytes, failed.phase) == (1 << 40, "forward")


@pytest.mark.parametrize("some_have", [False, True])
def test_frees_without_stacks_are_autograds_only_where_others_have_some(some_have: bool) -> None:
    allocator = CachingAllocator()
    first, second = allocator.malloc(3 << 20, LINEAR), allocator.malloc(2 << 20, LINEAR)
    allocator.free(first, [])
    allocator.malloc(3 << 20, LINEAR)
    allocator.free(second, DATA if some_have else [])
    result = only(allocator.snapshot())
    assert PHASES[result.phase[2]] == ("backward" if some_have else "forward")


def test_where_requests_failed_among_the_events() -> None:
    allocator = CachingAllocator()
    kept = allocator.malloc(3 << 20)
    allocator.trace.append(allocator.trace[-1] | {"action": "oom", "device_free": 0, "size": 1 << 40})
    allocator.free(kept)
    allocator.malloc(2 << 20)
    allocator.trace.append(allocator.trace[-1] | {"action": "oom", "device_free": 0, "size": 1 << 41})
    result = only(allocator.snapshot())
    assert (result.failures, result.failed.bytes) == ((1, 3), 1 << 41)


def test_marks_of_the_program_come_before_stacks() -> None:
    allocator = CachingAllocator()
    for step in (7, 8):
        allocator.annotate(f"ProfilerStep#{step}", "START")
        allocator.annotate("perfkit::data", "START")
        batch = allocator.malloc(10, LINEAR)
        allocator.annotate("perfkit::data", "END")
        allocator.annotate("Optimizer.step#SGD.step", "START")
        scratch = allocator.malloc(10, [])
        allocator.annotate("Optimizer.step#SGD.step", "END")
        allocator.free(scratch)
        allocator.free(batch)
        allocator.annotate(f"ProfilerStep#{step}", "END")
    result = only(allocator.snapshot())
    assert result.step.tolist() == [7] * 4 + [8] * 4
    assert [PHASES[each] for each in result.phase[:2]] == ["data", "optimizer"]


def test_what_was_there_before_the_history_is_known_by_its_stack() -> None:
    allocator = CachingAllocator()
    allocator.recording = False
    allocator.malloc(3 << 20, frames((f"{SITE}/torch/nn/modules/module.py", "_apply"), ("/home/me/train.py", "main")))
    freed = allocator.malloc(700)
    allocator.recording = True
    allocator.malloc(100)
    allocator.free(freed)
    result = only(allocator.snapshot())
    assert [(each.size_bytes, each.category, each.name) for each in result.known] == [
        (3 << 20, "parameter", "me/train.py:7 main")
    ]
    assert result.unexplained_bytes == 1024
    assert result.size.tolist() == [512, -1024]
    assert result.reserved.at_event.tolist() == [0, 0]


def categories(snapshot: dict[str, Any]) -> list[str]:
    """Of the two events, as entries tell their pools, and as segments alone do."""
    result = only(snapshot)
    return [result.get_text(result.category, at) for at in range(2)]


def without_pools_of_entries(allocator: CachingAllocator) -> dict[str, Any]:
    trace = [{key: value for key, value in each.items() if key != "pool_id"} for each in allocator.trace]
    return {**allocator.snapshot(), "device_traces": [trace]}


@pytest.mark.parametrize(
    ("pool", "stream", "category"),
    [
        ((3, 0), 7, "compiled-graph pool"),
        ((0, 3), 7, "compiled-graph pool"),  # of a handle, as torch.compile asks for
        ((0, 3), 0, "memory pool"),  # nothing is captured on the default stream
    ],
)
def test_pools_of_graphs_and_of_the_program_are_told_apart(pool: tuple[int, int], stream: int, category: str) -> None:
    allocator = CachingAllocator()
    allocator.streams[pool] = stream
    allocator.malloc(100, pool=pool)
    allocator.malloc(100)
    snapshot, old = allocator.snapshot(), without_pools_of_entries(allocator)
    state = {"segments": allocator.snapshot()["segments"]}
    for taken in (snapshot, old, state):
        assert sorted(categories(taken)) == ["", category]
    is_graph = category == "compiled-graph pool"
    assert len(only(allocator.snapshot()).private) == is_graph


def test_a_registered_buffer_of_nccl_is_what_its_stack_tells() -> None:
    """FSDP2 allocates its buffers in the process group's pool (`set_allocate_memory_from_process_group_for_comm`)."""
    collectives = f"{SITE}/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py"
    allocator = CachingAllocator()
    allocator.malloc(1 << 20, frames((collectives, "all_gather_copy_in"), ("/home/me/train.py", "main")), pool=(0, 3))
    allocator.malloc(2 << 20, frames(("/home/me/train.py", "main")), pool=(0, 3))
    assert categories(allocator.snapshot()) == ["communication buffer", "memory pool"]


def test_the_request_that_failed() -> None:
    allocator = CachingAllocator(capacity=30 << 20)
    kept = allocator.malloc(15 << 20, LINEAR)
    with pytest.raises(MemoryError):
        allocator.malloc(25 << 20, LINEAR)
    allocator.free(kept)
    failed = only(allocator.snapshot()).failed
    assert (failed.bytes, failed.phase, failed.op, failed.line) == (
        25 << 20,
        "forward",
        "linear",
        "me/model.py:7 forward",
    )
    assert "14.0 MiB free" in failed.message
    allocator.malloc(100)
    file = parse_snapshot(allocator.snapshot(), "x")
    assert file.allocations[0].failed is None
    assert [(note.id, note.figures) for note in file.notes] == [("memory.survived_failures", {"requests": 1})]


def test_a_history_that_was_stopped_says_what_does_not_fit() -> None:
    allocator = CachingAllocator()
    first, second = allocator.malloc(100), allocator.malloc(2000)
    allocator.free(second)
    allocator.recording = False
    allocator.free(first)
    allocator.malloc(100)
    allocator.malloc(100)
    notes = parse_snapshot(allocator.snapshot(), "x").notes
    assert {note.id for note in notes} == {"memory.allocated_later"}


def test_a_ring_buffer_that_lost_its_beginning_still_balances() -> None:
    allocator = training()
    whole = allocator.snapshot()
    for lost in range(len(allocator.trace)):
        rest = {**whole, "device_traces": [allocator.trace[lost:]]}
        result = only(rest)
        if result.source == SOURCE:
            assert allocated(result)[-1] == allocator.allocated
            assert reserved(result) == allocator.reserved


def old_format(allocator: CachingAllocator) -> list[dict[str, Any]]:
    """`torch.cuda.memory_snapshot()` of torch 2.0: no addresses of blocks, their stacks in a history."""
    segments = allocator.snapshot()["segments"]
    for segment in segments:
        del segment["segment_pool_id"], segment["is_expandable"], segment["frames"]
        for block in segment["blocks"]:
            block["history"] = [{"addr": block.pop("address"), "real_size": 1, "frames": block.pop("frames")}]
            del block["requested_size"]
    return segments


def test_segments_alone_tell_what_was_held() -> None:
    allocator = training()
    for snapshot in (old_format(allocator), {"segments": old_format(allocator), "device_traces": [[]]}):
        result = only(snapshot)  # type: ignore[arg-type]
        assert int(result.size.sum()) == allocator.allocated
        assert reserved(result) == allocator.reserved
        assert [result.get_text(result.category, at) for at in range(len(result))] == ["optimizer state"] * 2


def test_entries_without_times_are_in_their_order() -> None:
    allocator = training()
    snapshot = allocator.snapshot()
    for entry in snapshot["device_traces"][0]:
        for key in ("time_us", "pool_id", "compile_context", "user_metadata"):
            entry.pop(key, None)
    result = only(snapshot)
    assert (np.diff(result.time_ns) > 0).all()
    assert allocated(result) == allocator.history


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["pickle", "json", "json with a table of stacks"])
def test_files(tmp_path: Path, form: str, packed: bool) -> None:
    allocator = training()
    expected = told(only(allocator.snapshot()))
    snapshot = allocator.snapshot()
    if form == "pickle":
        data = pickle.dumps(snapshot)
    elif form == "json":
        data = json.dumps(snapshot).encode()
    else:
        stacks: list[Any] = []
        for entry in snapshot["device_traces"][0] + [each for one in snapshot["segments"] for each in one["blocks"]]:
            if entry["frames"] not in stacks:
                stacks.append(entry["frames"])
            entry["frames"] = stacks.index(entry["frames"])
        data = json.dumps({**snapshot, "stacks": stacks}).encode()
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(data) if packed else data)
    (result,) = read_snapshot(path).allocations
    assert told(result) == expected


HUGE = {"action": "alloc", "addr": 1 << 70, "size": 1, "frames": []}
BROKEN: dict[str, Any] = {
    "a number": 7,
    "a dictionary of something else": {"state_dict": {}},
    "segments that are none": {"segments": [1], "device_traces": []},
    "a segment without blocks": {"segments": [{"address": 0, "total_size": 1}]},
    "a trace that is none": {"segments": [], "device_traces": [7]},
    "entries that are none": {"segments": [], "device_traces": [[7, "x"]]},
    "an entry without a size": {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1}]]},
    "a size that is a text": {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": "x"}]]},
    "an address beyond all": {"segments": [], "device_traces": [[HUGE]]},
    "an action that is a list": {"segments": [], "device_traces": [[{"action": [], "addr": 1, "size": 1}]]},
    "nothing at all": {"segments": [], "device_traces": [[], []]},
    "one list many times": {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": 1}]] * 9},
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_what_is_no_snapshot_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    for data in (pickle.dumps(BROKEN[name]), json.dumps(BROKEN[name]).encode()):
        path = tmp_path / "file"
        path.write_bytes(data)
        if name == "one list many times" and data.startswith(b"{"):
            continue  # JSON has no way to say so
        with pytest.raises(PerfkitError) as caught:
            read_snapshot(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
