"""Why a device had nothing to do: times of small traces that can be added up by hand, in microseconds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.analysis.model.idle import (
    AT_THE_END,
    BETWEEN,
    CAUSES,
    ELSEWHERE,
    HELD_UP,
    LATE,
    OTHER_STREAM,
    PEERS,
    STARTING,
    SYNC,
)
from perfkit.analysis.model.time_split import DATA, IDLE, UNRECORDED
from perfkit.analysis.trace.idle.host_calls import find_host_calls
from perfkit.analysis.trace.idle.idle_gaps import describe_idle_places
from perfkit.analysis.trace.idle.idle_time import find_idle_time
from perfkit.analysis.trace.rank_trace import analyze_ops
from perfkit.analysis.trace.time.launch_queue import build_launch_queue
from perfkit.analysis.trace.time.step_windows import find_step_windows
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def read(tmp_path: Path, *events: Event) -> Ops:
    return read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events)))


def told(ops: Ops) -> list[tuple[str, float, str]]:
    """Cause, microseconds and place of each piece."""
    spans = find_step_windows(ops)
    idle = find_idle_time(ops, spans, build_launch_queue(ops), find_host_calls(ops, spans))
    assert idle is not None
    number, texts = describe_idle_places(ops, idle)
    rows = zip(idle.cause.tolist(), (idle.length_ns / 1e3).tolist(), number.tolist(), strict=True)
    return [(CAUSES[cause], length, texts[text]) for cause, length, text in rows]


def call(name: str, start: float, duration: float) -> Event:
    return {**launch(99, start, duration), "name": name, "args": {}}


def python(name: str, start: float, duration: float) -> Event:
    return {**mark(name, start, duration), "cat": "python_function"}


# A step with two kernels, from 20 to 50 and from 2,100 to 2,190; the second one was launched at 2,090.
TWO = [
    mark("ProfilerStep#1", 0, 2200), op("aten::a", 0, 10), launch(1, 5), kernel("k", 1, 20, 30),
    op("aten::b", 2085, 10), launch(2, 2090), kernel("k", 2, 2100, 90),
]  # fmt: skip


def test_each_moment_has_one_cause(tmp_path: Path) -> None:
    ops = read(
        tmp_path,
        *TWO,
        op("aten::item", 29, 25),
        call("cudaStreamSynchronize", 30, 22),
        python("train.py(7): train", 0, 2200),
        python("prep.py(31): preprocess", 54, 1900),
        mark("enumerate(DataLoader)#x.__next__", 1960, 40),
    )
    assert told(ops) == [
        (UNRECORDED, 20, ""),
        (SYNC, 2, "cudaStreamSynchronize in aten::item in train (train.py:7)"),
        (ELSEWHERE, 1908, "preprocess (prep.py:31)"),
        (DATA, 40, "train (train.py:7) in the range enumerate(DataLoader)#x.__next__"),
        (LATE, 91, "train (train.py:7)"),
        (STARTING, 9, ""),
        (AT_THE_END, 10, "train (train.py:7)"),
    ]


def test_a_call_that_waits_has_the_time_to_the_next_launch_if_that_comes_soon(tmp_path: Path) -> None:
    waited = call("cudaDeviceSynchronize", 1200, 10)
    assert [row[:2] for row in told(read(tmp_path, *TWO, waited)) if row[0] == SYNC] == [(SYNC, 890)]
    early = call("cudaDeviceSynchronize", 1050, 10)
    assert [row[:2] for row in told(read(tmp_path, *TWO, early)) if row[0] == SYNC] == [(SYNC, 10)]


def test_frames_of_libraries_are_told_with_the_line_that_is_in_them(tmp_path: Path) -> None:
    ops = read(
        tmp_path,
        *TWO,
        python("prep.py(31): preprocess", 50, 2030),
        python("torch/utils/data/dataloader.py(700): _try_get_data", 55, 2020),
    )
    (place,) = [place for cause, _, place in told(ops) if cause == ELSEWHERE]
    assert place.startswith("_try_get_data (dataloader.py:700)")
    assert place.endswith("preprocess (prep.py:31)")


def test_a_thread_that_does_nothing_waits_for_the_busiest(tmp_path: Path) -> None:
    """Of a backward's first launch: its thread was not there yet, and the forward's was in Python."""
    other = [{**op("aten::b", 2085, 10), "tid": 2}, {**launch(2, 2090), "tid": 2}]
    events = [*TWO[:4], *other, TWO[-1], op("aten::c", 10, 2), op("aten::d", 13, 2)]
    ops = read(tmp_path, *events, python("train.py(9): loss_of", 40, 2100))
    assert [place for cause, _, place in told(ops) if cause == ELSEWHERE] == ["loss_of (train.py:9)"]


@pytest.mark.parametrize("where", [1, 7])
def test_a_long_gap_in_a_collective_of_the_host_waits_for_others(where: int, tmp_path: Path) -> None:
    ops = read(tmp_path, *TWO, {**mark("gloo:all_reduce", 60, 2000), "tid": where})
    assert [row[:2] for row in told(ops) if row[0] in (ELSEWHERE, PEERS)] == [(PEERS, 2041)]


def test_with_work_queued_it_is_told_what_came_next(tmp_path: Path) -> None:
    ops = read(
        tmp_path,
        mark("ProfilerStep#1", 0, 1000),
        op("aten::mm", 0, 990),
        *(launch(number, 2 * number) for number in range(1, 5)),
        kernel("first", 1, 12, 10),
        kernel("follows", 2, 26, 14),  # 4 us after the one before it
        kernel("held_up", 3, 300, 20),  # 260 us after it
        kernel("elsewhere", 4, 400, 600, stream=9),  # 80 us
    )
    assert [row[:2] for row in told(ops)] == [(UNRECORDED, 12), (BETWEEN, 4), (HELD_UP, 260), (OTHER_STREAM, 80)]


def test_causes_add_up_to_the_idle_time_of_the_split(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [mark(f"ProfilerStep#{step}", step * 3000, 2990) for step in range(3)]
    generator = np.random.default_rng(3)
    at = 100.0
    for number in range(1, 120):
        events += [op("aten::mm", at, 8), launch(number, at + 2), kernel("k", number, at + 14, 20)]
        if number % 10 == 0:
            events.append(call("cudaDeviceSynchronize", at + 9, 40))
        at += float(generator.choice([12, 30, 200, 1500])) if at < 8500 else 3
    result = analyze_ops(read(tmp_path, *events), None)
    split = {part.category: part.seconds for part in result.time_split}
    for part in (UNRECORDED, *IDLE):
        assert split.get(part, 0.0) >= 0
    idle = sum(split.get(part, 0.0) for part in (UNRECORDED, DATA, *IDLE))
    assert idle > 0
    assert sum(row.seconds for row in result.gaps) == pytest.approx(idle)
