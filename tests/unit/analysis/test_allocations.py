from pathlib import Path

import pytest

from perfkit.analysis.allocations import rank_account
from perfkit.errors import RunFormatError
from perfkit.record import Block, MemoryPeaks, measured
from perfkit.store.read import StoredRank
from tests.fixtures.suites import ENVIRONMENT, NO_MEMORY, changed, record
from tests.fixtures.traces import mark, memory, op, write_trace

STEP = [
    mark("perfkit::step#0", 0, 100),
    mark("perfkit::forward", 10, 30),
    mark("perfkit::backward", 50, 30),
    op("aten::linear", 12, 10),
    op("aten::addmm", 13, 8),
    op("aten::empty", 14, 1),
]


def stored(path: Path, **fields) -> StoredRank:
    return StoredRank(record=record(**fields), trace=None, memory=path)


def test_events_get_their_phase_and_the_op_that_asked_for_them(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "m.json.gz", [*STEP, memory(14.5, 7, 400), memory(60, 7, -400)])
    blocks = (Block(address=1, size_bytes=100, category="parameter", name="weight"),)
    result = rank_account(
        stored(path, known_blocks=blocks, memory=changed(NO_MEMORY, rss=measured(1500, "bytes", "rss")))
    )
    assert result is not None
    assert (result.peak_bytes, result.peak_phase) == (500, "forward")
    assert [(block.category, block.name) for block in result.largest] == [
        ("activation", "aten::addmm in forward"),
        ("parameter", "weight"),
    ]
    assert [share.bytes for share in result.beyond] == [1000]


def test_on_a_gpu_the_allocators_count_covers_what_the_state_does_not(tmp_path: Path) -> None:
    events = [memory(5, 9, 64), memory(14.5, 7, 1024, device_type=1, total=5120 + 1024)]
    path = write_trace(tmp_path / "m.json.gz", [*STEP, *events])
    peaks = MemoryPeaks(
        allocated=measured(6144, "bytes", "allocator"),
        reserved=measured(8192, "bytes", "allocator"),
        driver_used=measured(10000, "bytes", "NVML"),
        rss=measured(1, "bytes", "rss"),
    )
    blocks = (Block(address=1, size_bytes=100, category="parameter", name="weight"),)  # 512 in the allocator's units
    gpu = changed(ENVIRONMENT, device="cuda")
    result = rank_account(stored(path, environment=gpu, memory=peaks, known_blocks=blocks))
    assert result is not None
    assert result.peak_bytes == 6144
    assert {share.category: share.bytes for share in result.categories} == {
        "unknown": 5120 - 512,
        "activation": 1024,
        "parameter": 512,
    }
    assert [share.bytes for share in result.beyond] == [2048, 1808]


def test_no_memory_pass_no_account(tmp_path: Path) -> None:
    assert rank_account(StoredRank(record=record(), trace=None, memory=None)) is None
    assert rank_account(stored(write_trace(tmp_path / "m.json.gz", STEP))) is None


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.json.gz"
    path.write_bytes(b"no trace at all")
    with pytest.raises(RunFormatError, match=r"m\.json\.gz"):
        rank_account(stored(path))
