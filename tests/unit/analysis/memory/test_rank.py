"""The account of a stored rank, against what its few events add up to."""

import json
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from perfkit.analysis.memory.process_memory import BATCHES
from perfkit.analysis.memory.rank import read_rank_account
from perfkit.core.allocations import Allocations, FailedRequest, InitialBlock, ReservedSegments, build_allocations
from perfkit.core.errors import RunFormatError
from perfkit.core.record.memory import ProcessMemory
from perfkit.core.record.quantity import make_measurement
from perfkit.core.record.rank_record import RankRecord
from perfkit.core.record.trace_marks import PHASES
from perfkit.store.memory_file import write_allocations
from perfkit.store.suite_reader import StoredRank
from tests.fixtures.suites import ENVIRONMENT, record

FORWARD, BACKWARD = PHASES.index("forward"), PHASES.index("backward")
WEIGHT = InitialBlock(
    address=0x1000, size_bytes=1024, category="parameter", name="fc.weight", shape="[16, 16]", dtype="fp32"
)
CUDA = msgspec.structs.replace(ENVIRONMENT, device="cuda")


def stored(folder: Path, events: Allocations, rank: RankRecord, history: Path | None = None) -> StoredRank:
    path = folder / "memory.parquet"
    write_allocations(path, events)
    return StoredRank(record=rank, trace=None, memory=path, history=history)


def step(device: str = "cpu", **more: object) -> Allocations:
    """One step of a layer with a weight of 1024: an output of 2048 lives into backward, where 512 are a gradient."""
    return build_allocations(
        device=device,
        source="made up",
        names=("", "aten::addmm", "fc", "gradient"),
        known=(WEIGHT,),
        time_ns=[10, 20, 30, 40],
        address=[0x2000, 0x4000, 0x2000, 0x4000],
        size=[2048, 512, -2048, -512],
        phase=[FORWARD, BACKWARD, BACKWARD, BACKWARD],
        visit=[1, 2, 2, 2],
        step=[5, 5, 5, 5],
        op=[1, 0, 0, 0],
        module=[2, 2, 2, 2],
        category=[0, 3, 0, 3],
        **more,
    )


def test_a_rank_in_main_memory(tmp_path: Path) -> None:
    process = ProcessMemory(
        before_model=make_measurement(10_000, "bytes", "before"),
        peak=make_measurement(20_000, "bytes", "the largest"),
        batches=make_measurement(100, "bytes", "batches"),
    )
    account = read_rank_account(stored(tmp_path, step(), record(process_memory=process)))
    assert account.peak_bytes == 1024 + 2048 + 512
    assert {share.category: share.bytes for share in account.categories} == {
        "parameter": 1024,
        "activation": 2048,
        "gradient": 512,
    }
    assert (account.peak_phase, account.peak_step, account.step_peaks) == ("backward", 5, (3584,))
    assert {share.category: share.bytes for share in account.outside_allocator} == {
        "interpreter and libraries": 10_000,
        BATCHES: 100,
        "residual": 20_000 - 10_000 - 100 - 3584,
    }
    assert (account.process_bytes, account.process_source, account.source) == (20_000, "the largest", "made up")
    assert account.failed_request is None


def test_a_rank_of_several_says_which(tmp_path: Path) -> None:
    account = read_rank_account(stored(tmp_path, step(), record(rank=1, world_size=4)))
    assert account.source.startswith("made up; rank 1 of 4")


def test_a_run_that_failed_keeps_its_request(tmp_path: Path) -> None:
    request = FailedRequest(bytes=4096, message="no memory", phase="backward", step=5, module="fc", line="mine.py:3 f")
    account = read_rank_account(stored(tmp_path, step(failed=request), record()))
    assert account.failed_request == request


def snapshot(device: int) -> dict[str, object]:
    """What `torch.cuda.memory._snapshot()` returns, of `device`: the same blocks in a segment of 2 MiB, with a line."""
    frames = [{"filename": "mine.py", "line": 7, "name": "loss"}]

    def entry(action: str, address: int, size: int, time_us: int) -> dict[str, object]:
        return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time_us, "frames": frames}

    trace = [
        entry("segment_alloc", 0x1000, 2 << 20, 1),
        entry("alloc", 0x2000, 2000, 2),
        entry("alloc", 0x4000, 500, 3),
        entry("free_requested", 0x2000, 2000, 4),
        entry("free_completed", 0x2000, 2000, 4),
        entry("free_requested", 0x4000, 500, 5),
        entry("free_completed", 0x4000, 500, 5),
    ]
    segment = {
        "device": device, "address": 0x1000, "total_size": 2 << 20, "allocated_size": 0, "active_size": 0, "stream": 0,
        "segment_type": "large", "is_expandable": False, "frames": frames,
        "blocks": [{"address": 0x1000, "size": 2 << 20, "requested_size": 0, "state": "inactive", "frames": []}],
    }  # fmt: skip
    return {"segments": [segment], "device_traces": [[]] * device + [trace], "allocator_settings": {}}


def test_the_history_of_the_devices_allocator_fills_in_lines_and_segments(tmp_path: Path) -> None:
    history = tmp_path / "history.json"
    history.write_text(json.dumps(snapshot(1)))
    account = read_rank_account(stored(tmp_path, step("cuda:1"), record(environment=CUDA), history))
    assert account.peak_bytes == 3584
    by_size = {block.bytes: block for block in account.largest_blocks}
    assert by_size[2048].line == "mine.py:7 loss"
    assert by_size[2048].op == "aten::addmm"
    assert account.fragmentation.free_bytes == (2 << 20) - 3584
    assert account.fragmentation.largest_free_bytes == (0x1000 + (2 << 20)) - (0x4000 + 512)


def test_a_history_of_another_device_is_left_alone(tmp_path: Path) -> None:
    history = tmp_path / "history.json"
    history.write_text(json.dumps(snapshot(0)))
    account = read_rank_account(stored(tmp_path, step("cuda:1"), record(environment=CUDA), history))
    assert (account.peak_bytes, account.fragmentation) == (3584, None)
    assert all(block.line == "" for block in account.largest_blocks)


def test_a_rank_without_the_pass_or_without_a_block_has_no_account(tmp_path: Path) -> None:
    assert read_rank_account(StoredRank(record=record(), trace=None, memory=None)) is None
    assert read_rank_account(stored(tmp_path, build_allocations(device="cpu", source="", size=[]), record())) is None


def test_what_the_file_says_is_reserved_is_told_without_a_history(tmp_path: Path) -> None:
    held = ReservedSegments(at_event=np.array([0]), address=np.array([0]), size=np.array([1 << 20]))
    account = read_rank_account(stored(tmp_path, step("cuda:0", reserved=held), record(environment=CUDA)))
    assert account.fragmentation.free_bytes == (1 << 20) - 3584


def test_truncated_files_are_named(tmp_path: Path) -> None:
    rank = stored(tmp_path, step("cuda:0"), record(environment=CUDA), tmp_path / "history.json.gz")
    (tmp_path / "history.json.gz").write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(RunFormatError, match=r"history\.json\.gz"):
        read_rank_account(rank)
    assert rank.memory is not None
    shutil.copy(tmp_path / "history.json.gz", rank.memory)
    with pytest.raises(RunFormatError, match=r"memory\.parquet"):
        read_rank_account(rank)
