"""Steps as marked by different programs, and found where nobody marked them."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.trace.steps.steps import find_period, find_repeats
from tests.fixtures.trace_events import Event, event, kernel, ops_of, range_

S = 1000


def spans(tmp_path: Path, *events: Event) -> tuple[list[tuple[float, float]], str]:
    steps = ops_of(tmp_path, *events).steps
    return [(a / S, b / S) for a, b in zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)], steps.basis


def work(*starts: float, tid: int = 1, name: str = "aten::relu") -> list[Event]:
    return [event(name, start, 3, tid=tid) for start in starts]


def test_marks_of_several_threads_are_those_of_the_busiest(tmp_path: Path) -> None:
    found, basis = spans(
        tmp_path,
        range_("ProfilerStep#1", 0, 10), range_("ProfilerStep#2", 10, 10),
        range_("ProfilerStep#1", 1, 10, tid=2), range_("ProfilerStep#2", 11, 10, tid=2),
        *work(2, 12), *work(3, tid=2),
    )  # fmt: skip
    assert found == [(0, 10), (10, 20)]
    assert "torch.profiler" in basis


def test_marks_on_the_device_are_not_counted_again(tmp_path: Path) -> None:
    on_device = {**kernel("ProfilerStep#1", 5, 20), "cat": "gpu_user_annotation"}
    found, _ = spans(tmp_path, range_("ProfilerStep#1", 0, 10), *work(2), on_device)
    assert found == [(0, 10)]


def test_a_mark_repeated_is_one_step_and_rounding_is_no_overlap(tmp_path: Path) -> None:
    found, _ = spans(
        tmp_path,
        range_("ProfilerStep#1", 0, 10.001), range_("ProfilerStep#1", 1, 8), range_("ProfilerStep#2", 10, 10),
        *work(2, 12),
    )  # fmt: skip
    assert found == [(0, 10.001), (10.001, 20)]


def test_the_empty_range_that_the_profiler_opens_at_the_end_is_no_step(tmp_path: Path) -> None:
    found, _ = spans(tmp_path, range_("ProfilerStep#1", 0, 10), *work(2), range_("ProfilerStep#2", 10, 1))
    assert found == [(0, 10)]


@pytest.mark.parametrize("name", ["train_step", "iteration {}", "## step {} ##", "[pl][profile]run_training_batch"])
def test_ranges_named_like_steps(tmp_path: Path, name: str) -> None:
    ranges = [range_(name.format(number), 10 * number, 9) for number in range(3)]
    parts = [range_("my part", 10 * number + half, 4) for number in range(3) for half in (0, 4)]
    found, basis = spans(tmp_path, *ranges, *parts, *work(1, 11, 21))
    assert found == [(0, 9), (10, 19), (20, 29)]
    assert basis.startswith("marked by ")


def test_ranges_that_cover_little_are_no_steps(tmp_path: Path) -> None:
    found, _ = spans(tmp_path, range_("load", 0, 2), range_("load", 10, 2), *work(1, 5, 11))
    assert found == []  # and equal ops in a row are none either


def test_layers_that_cover_a_pass_are_no_steps(tmp_path: Path) -> None:
    layers = [range_(f"layer {number}", 10 * number, 10) for number in range(4)]
    found, _ = spans(tmp_path, *layers, *work(1, 11, 21), event("aten::mm", 35, 1))
    assert found == []


def test_from_one_call_of_the_optimizer_to_the_next(tmp_path: Path) -> None:
    optimizer = [range_("Optimizer.step#Adam.step", start, 2) for start in (8, 18, 28)]
    found, basis = spans(tmp_path, *work(1, 5, 11, 21, name="aten::mm"), *work(15), *optimizer)
    assert found == [(1, 10), (10, 20), (20, 30)]
    assert "3 calls" in basis
    assert "Optimizer.step#Adam.step" in basis


def test_what_precedes_the_ops_of_the_second_step_is_set_up(tmp_path: Path) -> None:
    optimizer = [range_("Optimizer.step#Adam.step", start, 2) for start in (58, 78, 98)]
    set_up = [event(name, at, 4) for at, name in ((0, "aten::normal_"), (10, "aten::mm"), (20, "aten::to"))]
    loop = [event(name, at + shift, 4) for at in (40, 60, 80) for shift, name in ((2, "aten::mm"), (8, "aten::relu"))]
    found, _ = spans(tmp_path, *set_up, *loop, *optimizer)
    assert found == [(42, 60), (60, 80), (80, 100)]


@pytest.mark.parametrize("set_up", [[], [event("aten::normal_", 1, 1)]])
def test_what_follows_the_optimizer_is_no_part_of_the_first_step(set_up: list[Event], tmp_path: Path) -> None:
    optimizer = [range_("Optimizer.step#SGD.step", start, 2) for start in (48, 98, 148)]
    items = [event("aten::item", at, 1) for at in (51, 101)]
    loop = [event(f"aten::op{index}", at + 5 + 3 * index, 2) for at in (0, 50, 100) for index in range(12)]
    found, _ = spans(tmp_path, *set_up, *items, *loop, *optimizer)
    assert found == [(5, 50), (50, 100), (100, 150)]


def test_a_recording_that_begins_within_a_step_does_not_count_it(tmp_path: Path) -> None:
    optimizer = [range_("Optimizer.step#Adam.step", start, 2) for start in (18, 38, 58)]
    loop = [event(name, at + shift, 4) for at in (0, 20, 40) for shift, name in ((2, "aten::mm"), (8, "aten::relu"))]
    found, _ = spans(tmp_path, *loop[1:], *optimizer)
    assert found == [(20, 40), (40, 60)]


def test_ops_that_repeat(tmp_path: Path) -> None:
    events = [
        event(name, 10 * repeat + offset, 2)
        for repeat in range(3)
        for offset, name in ((0, "aten::mm"), (3, "aten::relu"), (6, "aten::mm"))
    ]
    found, basis = spans(tmp_path, *events)
    assert found == [(0, 10), (10, 20), (20, 28)]
    assert basis.endswith(" 3 repeats of 3 ops")


def test_kernels_that_repeat_where_nothing_else_was_traced(tmp_path: Path) -> None:
    events = [kernel(name, 10 * repeat + offset, 2) for repeat in range(4) for offset, name in ((0, "a"), (5, "b"))]
    found, basis = spans(tmp_path, *events)
    assert found == [(0, 10), (10, 20), (20, 30), (30, 37)]
    assert basis.endswith(" 4 repeats of 2 kernels")


def test_marks_on_the_device_where_only_that_was_traced(tmp_path: Path) -> None:
    marks = [{**kernel(f"ProfilerStep#{each}", 10 * each, 9), "cat": "gpu_user_annotation"} for each in range(3)]
    ops = ops_of(tmp_path, *marks, *(kernel(name, at, 2) for name, at in (("a", 1), ("b", 5), ("a", 12), ("c", 27))))
    assert ops.steps.on_device
    assert ops.steps.number.tolist() == [0, 1, 2]
    assert ops.kernel_step.tolist() == [0, 0, 1, 2]


def test_nothing_tells(tmp_path: Path) -> None:
    assert spans(tmp_path, *work(1, 5), event("aten::mm", 9, 1)) == ([], "")


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(3, 6), st.integers(0, 11))
def test_the_smallest_period_of_a_repeated_sequence(unit: list[int], times: int, more: int) -> None:
    whole = unit * times + unit[: more % len(unit)]
    expected = next(p for p in range(1, len(unit) + 1) if whole[p:] == whole[:-p])
    assert find_period(np.asarray(whole)) == expected


@given(st.lists(st.integers(0, 2), max_size=30))
def test_what_is_found_is_a_period(sequence: list[int]) -> None:
    found = find_period(np.asarray(sequence, np.int64))
    brute = (p for p in range(1, len(sequence) // 3 + 1) if sequence[p:] == sequence[:-p])
    assert found == next(brute, None)


@pytest.mark.parametrize("sequence", ["abcabcab", "eababababh", "abcd"])
def test_layers_between_other_work_are_no_steps(sequence: str) -> None:
    assert find_period(np.frombuffer(sequence.encode(), np.uint8)) is None


def test_repeats_in_time() -> None:
    found = find_repeats(np.asarray([1, 2, 1, 2, 1, 2, 1]), np.arange(0, 70, 10), 99)
    assert found is not None
    starts, ends, length = found
    assert (starts.tolist(), ends.tolist(), length) == ([0, 20, 40], [20, 40, 60], 2)
    whole = find_repeats(np.asarray([1, 2, 1, 2, 1, 2]), np.arange(0, 60, 10), 99)
    assert whole[1].tolist() == [20, 40, 99]
