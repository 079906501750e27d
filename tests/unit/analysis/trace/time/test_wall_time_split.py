import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.model.time_split import (
    CPU_CATEGORIES,
    DEVICE_CATEGORIES,
    IDLE,
    IDLE_QUEUED,
    IDLE_UNKNOWN,
    WAITING_FOR_CPU,
)
from perfkit.analysis.trace.time.intervals import measure_length, merge_intervals
from perfkit.analysis.trace.time.wall_time_split import list_categories, split_wall_time


def test_overlapping_work_is_counted_once_and_the_rest_is_python_and_dispatch() -> None:
    work = {
        "compute-bound": merge_intervals([0], [4]),
        "communication": merge_intervals([2], [7]),  # exposed from 4 to 7
        "copies": merge_intervals([6], [8]),  # exposed from 7 to 8
    }
    found = split_wall_time(merge_intervals([0], [10]), work, CPU_CATEGORIES)
    parts = {part.category: part for part in found.compute_shares(parts=2)}
    assert parts["compute-bound"].seconds == pytest.approx(2e-9)
    assert parts["communication"].seconds == pytest.approx(1.5e-9)
    assert parts["copies"].seconds == pytest.approx(0.5e-9)
    assert parts["Python and dispatch"].share == pytest.approx(0.2)
    assert sum(part.share for part in parts.values()) == pytest.approx(1.0)
    assert tuple(parts) == CPU_CATEGORIES


def test_work_outside_of_the_windows_does_not_count() -> None:
    found = split_wall_time(merge_intervals([5], [10]), {"memory-bound": merge_intervals([0], [6])}, CPU_CATEGORIES)
    assert found.sum_categories("memory-bound") == 1


def test_every_window_has_its_own_split() -> None:
    found = split_wall_time(
        merge_intervals([0, 20], [10, 25]), {"compute-bound": merge_intervals([8], [22])}, CPU_CATEGORIES
    )
    assert [
        part.seconds for part in found.compute_shares(0) if part.category in ("compute-bound", "Python and dispatch")
    ] == [
        2e-9,
        8e-9,
    ]
    assert [
        part.seconds for part in found.compute_shares(1) if part.category in ("compute-bound", "Python and dispatch")
    ] == [
        2e-9,
        3e-9,
    ]


def test_windows_that_touch_are_kept_apart() -> None:
    windows = [[0, 10], [10, 20]]

    found = split_wall_time(
        np.asarray(windows, np.int64), {"compute-bound": merge_intervals([5], [12])}, CPU_CATEGORIES
    )
    assert found.ns[:, 0].tolist() == [5, 2]


def test_a_device_waits_for_the_cpu_only_while_nothing_is_queued() -> None:
    work = {"memory-bound": merge_intervals([10], [20])}
    known = split_wall_time(
        merge_intervals([0], [30]), work | {IDLE_QUEUED: merge_intervals([6], [12])}, DEVICE_CATEGORIES
    )
    assert (
        known.sum_categories(WAITING_FOR_CPU),
        known.sum_categories(IDLE_QUEUED),
        known.sum_categories("memory-bound"),
    ) == (16, 4, 10)
    unknown = split_wall_time(
        merge_intervals([0], [30]), work | {IDLE_UNKNOWN: merge_intervals([0], [30])}, DEVICE_CATEGORIES
    )
    assert (
        unknown.sum_categories(WAITING_FOR_CPU),
        unknown.sum_categories(IDLE_QUEUED),
        unknown.sum_categories(IDLE_UNKNOWN),
    ) == (0, 0, 20)


def test_what_is_known_to_be_queued_comes_before_what_may_be() -> None:
    found = split_wall_time(
        merge_intervals([0], [10]),
        {IDLE_QUEUED: merge_intervals([2], [6]), IDLE_UNKNOWN: merge_intervals([4], [9])},
        DEVICE_CATEGORIES,
    )
    assert [found.sum_categories(category) for category in IDLE] == [0, 3, 4, 3]


def test_fetching_data_is_all_of_it_on_a_cpu_and_what_is_idle_with_nothing_queued_on_a_device() -> None:
    work = {"waiting for data": merge_intervals([0], [12]), "memory-bound": merge_intervals([8], [20])}
    on_cpu = split_wall_time(merge_intervals([0], [30]), work, list_categories(on_cpu=True, with_data=True))
    assert (
        on_cpu.sum_categories("waiting for data"),
        on_cpu.sum_categories("memory-bound"),
        on_cpu.sum_categories("Python and dispatch"),
    ) == (12, 8, 10)
    on_device = split_wall_time(merge_intervals([0], [30]), work, list_categories(on_cpu=False, with_data=True))
    assert (
        on_device.sum_categories("waiting for data"),
        on_device.sum_categories("memory-bound"),
        on_device.sum_categories(WAITING_FOR_CPU),
    ) == (
        8,
        12,
        10,
    )
    assert "waiting for data" not in list_categories(on_cpu=True, with_data=False)


def test_no_windows_no_split() -> None:
    assert split_wall_time(merge_intervals([], []), {}, CPU_CATEGORIES).compute_shares() == ()


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=6)


@given(st.dictionaries(st.sampled_from([*DEVICE_CATEGORIES[:7], IDLE_QUEUED, IDLE_UNKNOWN]), spans), spans)
def test_parts_sum_to_the_windows_to_the_nanosecond(
    work: dict[str, list[tuple[int, int]]], windows: list[tuple[int, int]]
) -> None:
    def of(pairs: list[tuple[int, int]]):
        return merge_intervals([start for start, _ in pairs], [end for _, end in pairs])

    chosen = of(windows)
    found = split_wall_time(chosen, {name: of(pairs) for name, pairs in work.items()}, DEVICE_CATEGORIES)
    assert found.ns.sum(axis=1).tolist() == (chosen[:, 1] - chosen[:, 0]).tolist()
    assert int(found.ns.sum()) == measure_length(chosen)
    for name, pairs in work.items():
        inside = {cell for start, end in pairs for cell in range(start, end)}
        inside &= {cell for start, end in windows for cell in range(start, end)}
        assert found.sum_categories(name) <= len(inside)
