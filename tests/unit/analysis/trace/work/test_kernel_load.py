"""How far kernels fill a device, against hand calculations."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.analysis.trace.work.kernel_load import KernelLoad, measure_kernel_load
from perfkit.trace.model import DEVICE_CATEGORIES
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark

H100 = {
    "id": 0,
    "name": "NVIDIA H100 80GB HBM3",
    "numSms": 132,
    "computeMajor": 9,
    "computeMinor": 0,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 233472,
}
FULL = {"registers per thread": 32, "shared memory": 0, "grid": [1320, 1, 1], "block": [256, 1, 1]}


def write(folder: Path, launches: list[dict[str, Any]], device: dict[str, Any] | None, us: tuple[float, ...]) -> Path:
    events: list[Event] = [mark("ProfilerStep#1", 0, 1000)]
    at = 20.0
    for number, (arguments, duration) in enumerate(zip(launches, us, strict=True), start=1):
        event = kernel("gemm", number, at, duration)
        event["args"] |= arguments
        events += [launch(number, 10), event]
        at += duration
    path = folder / "trace.json"
    path.write_text(json.dumps({"deviceProperties": [device] if device else [], "traceEvents": events}))
    return path


def measure(folder: Path, arguments: dict[str, Any], device: dict[str, Any] | None = H100) -> list[float]:
    trace = read_trace(write(folder, [arguments], device, (50.0,)))
    load = measure_kernel_load(trace, trace.select_events(*DEVICE_CATEGORIES))
    return [float(column[0]) for column in load]


@pytest.mark.parametrize(
    ("changed", "blocks", "occupancy"),
    [
        ({}, 10.0, 1.0),  # 8 blocks of 8 warps fit
        ({"grid": [66, 1, 1]}, 0.5, 0.5 * 8 / 64),
        ({"registers per thread": 168, "block": [384, 1, 1], "shared memory": 199_680}, 10.0, 12 / 64),  # shared memory
        ({"registers per thread": 40, "block": [64, 1, 1]}, 10.0, 10 * 2 / 64),  # of 24 that fit
        ({"registers per thread": 255, "block": [128, 1, 1]}, 10.0, 2 * 4 / 64),  # 8 warps have registers
        ({"block": [32, 1, 1], "grid": [132 * 90, 1, 1], "registers per thread": 16}, 90.0, 32 / 64),  # 32 blocks
        ({"blocks per SM": 0.25, "est. achieved occupancy %": 3}, 0.25, 0.03),  # Kineto's own
        ({"blocks per SM": 1.5, "est. achieved occupancy %": 0}, 1.5, 1.5 * 8 / 64),  # its calculator failed
    ],
)
def test_load_of_a_launch(tmp_path: Path, changed: dict[str, Any], blocks: float, occupancy: float) -> None:
    found = measure(tmp_path, FULL | changed)
    assert found == pytest.approx([blocks, min(blocks, 1.0), occupancy])


def test_older_devices_hold_fewer_blocks_and_reserve_no_shared_memory(tmp_path: Path) -> None:
    turing = H100 | {
        "numSms": 68,
        "computeMajor": 7,
        "computeMinor": 5,
        "maxThreadsPerMultiprocessor": 1024,
        "sharedMemPerMultiprocessor": 65536,
    }
    small = FULL | {"block": [32, 1, 1], "grid": [6800, 1, 1]}
    assert measure(tmp_path, small, turing)[2] == 16 / 32
    assert measure(tmp_path, small | {"shared memory": 16384}, turing)[2] == 4 / 32


def test_what_a_trace_lacks_is_not_known(tmp_path: Path) -> None:
    nothing = [np.nan] * 3
    assert measure(tmp_path, {"grid": [36, 1, 1], "block": [256, 1, 1]}) == pytest.approx(nothing, nan_ok=True)
    bare = {key: value for key, value in H100.items() if key in ("id", "name", "numSms")}
    assert measure(tmp_path, FULL, bare) == pytest.approx([10.0, 1.0, np.nan], nan_ok=True)
    assert measure(tmp_path, FULL, None) == pytest.approx(nothing, nan_ok=True)
    failed = {"blocks per SM": 1.2, "est. achieved occupancy %": 0}
    assert measure(tmp_path, FULL | failed, None) == pytest.approx([1.2, 1.0, np.nan], nan_ok=True)
    tiny = {"blocks per SM": 0.01, "est. achieved occupancy %": 0}
    assert measure(tmp_path, FULL | tiny, None) == [0.01, 0.01, 0.0]


def test_means_are_weighted_with_durations_and_idle_time_counts(tmp_path: Path) -> None:
    launches = [FULL, FULL | {"grid": [33, 1, 1]}]
    trace = analyze_trace(read_trace(write(tmp_path, launches, H100, (100.0, 300.0))), None)
    occupancies = 1.0, 0.25 * 8 / 64
    assert trace.device_load is not None
    assert trace.device_load.sm_efficiency == pytest.approx((100 + 0.25 * 300) / 1000)
    assert trace.device_load.occupancy == pytest.approx((100 * occupancies[0] + 300 * occupancies[1]) / 400)
    assert (trace.device_load.known_share, trace.device_load.occupancy_share) == (1.0, 1.0)
    (row,) = trace.kernels
    assert row.blocks_per_sm == pytest.approx((100 * 10 + 300 * 0.25) / 400)
    assert row.sm_efficiency == pytest.approx((100 + 0.25 * 300) / 400)
    assert row.occupancy == pytest.approx(trace.device_load.occupancy)
    assert (row.all_calls, row.least_s, row.median_s, row.p99_s) == (2, *map(pytest.approx, (1e-4, 2e-4, 2.98e-4)))


def test_a_row_with_a_kernel_of_unknown_load_has_none(tmp_path: Path) -> None:
    trace = analyze_trace(read_trace(write(tmp_path, [FULL, {}], H100, (100.0, 300.0))), None)
    (row,) = trace.kernels
    assert (row.blocks_per_sm, row.sm_efficiency, row.occupancy) == (None, None, None)
    assert trace.device_load is not None
    assert trace.device_load.sm_efficiency == pytest.approx(0.1)
    assert trace.device_load.known_share == 0.25


def test_columns_are_as_long_as_the_events(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, [FULL] * 3, H100, (1.0, 2.0, 3.0)))
    load = measure_kernel_load(trace, trace.select_events(*DEVICE_CATEGORIES))
    assert [len(column) for column in load] == [3] * len(KernelLoad._fields)
