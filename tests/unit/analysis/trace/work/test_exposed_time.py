"""Exposed time and overlap, of traces whose times can be added up by hand, in microseconds."""

from pathlib import Path

import pytest

from perfkit.analysis.model.time_split import COMMUNICATION, COPIES
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"

# A collective from 100 to 500. Beside it a kernel that computes (100 to 150), a fill (200 to 230), a copy within the
# device (240 to 300) and a copy to it (320 to 420), which a kernel overlaps from 400 on.
BUSY = [
    mark("ProfilerStep#1", 0, 600), op("aten::a", 0, 90), *(launch(number, 10 * number) for number in range(1, 7)),
    kernel(REDUCE, 1, 100, 400, stream=20),
    kernel("a", 2, 100, 50),
    kernel("Memset (Device)", 3, 200, 30, cat="gpu_memset"),
    kernel("Memcpy DtoD (Device -> Device)", 4, 240, 60, cat="gpu_memcpy"),
    kernel("Memcpy HtoD (Pinned -> Device)", 5, 320, 100, stream=21, cat="gpu_memcpy"),
    kernel("b", 6, 400, 200),
]  # fmt: skip


def analyze(tmp_path: Path, events: list[Event]) -> RankTrace:
    return analyze_trace(read_trace(write_trace(tmp_path / "t.json.gz", events)), None)


def test_copies_and_fills_within_a_device_leave_communication_exposed(tmp_path: Path) -> None:
    result = analyze(tmp_path, BUSY)
    exposed = pytest.approx(250e-6)
    assert result.overlap.communication_s == pytest.approx(400e-6)
    assert result.overlap.exposed_communication_s == exposed
    assert result.overlap.exposed_copies_s == pytest.approx(80e-6)
    assert [(row.exposed_s, row.wall_s) for row in result.collectives] == [(exposed, pytest.approx(400e-6))]
    assert {row.kind: row.exposed_s for row in result.copies} == {"HtoD": pytest.approx(80e-6)}


def test_the_time_split_has_the_same_exposed_time(tmp_path: Path) -> None:
    """Copies come after communication: none is left of this one."""
    seconds = {share.category: share.seconds for share in analyze(tmp_path, BUSY).time_split}
    assert seconds[COMMUNICATION] == pytest.approx(250e-6)
    assert seconds[COPIES] == 0.0
    without = analyze(tmp_path, [each for each in BUSY if each["name"] != REDUCE])
    seconds = {share.category: share.seconds for share in without.time_split}
    assert (seconds[COMMUNICATION], seconds[COPIES]) == (0.0, pytest.approx(80e-6))


def test_each_of_compute_communication_and_copies_against_the_others(tmp_path: Path) -> None:
    rows = {row.kind: row for row in analyze(tmp_path, BUSY).overlap.pairs}
    assert {kind: (row.seconds, row.alone_s) for kind, row in rows.items()} == {
        "compute": (pytest.approx(250e-6), pytest.approx(100e-6)),
        "communication": (pytest.approx(400e-6), pytest.approx(170e-6)),
        "copies": (pytest.approx(100e-6), 0.0),
    }
    assert rows["compute"].with_compute_s is None
    assert rows["compute"].with_communication_s == rows["communication"].with_compute_s == pytest.approx(150e-6)
    assert rows["compute"].with_copies_s == rows["copies"].with_compute_s == pytest.approx(20e-6)
    assert rows["copies"].with_communication_s == rows["communication"].with_copies_s == pytest.approx(100e-6)
