"""Hot lines of stacks made by hand."""

from typing import Any

import pytest

from perfkit.analysis.findings.trace.lines import in_data, in_python
from perfkit.analysis.model.stacks import LoopStacks, ThreadStacks
from perfkit.analysis.stacks.hot import hot_stacks, thread_stacks
from perfkit.store.stacks import (
    FREE,
    HELD,
    LIBRARY,
    LOOP,
    OURS,
    PROGRAM,
    UNTOLD,
    WORKER,
    Call,
    SampledThread,
    StackFunction,
    Taken,
)
from tests.fixtures.sample_loops import LOOP as SAMPLE
from tests.fixtures.suites import changed

FUNCTIONS = (
    StackFunction(name="main", file="/me/train.py", owner=PROGRAM),
    StackFunction(name="Set.__getitem__", file="/me/data/set.py", owner=PROGRAM),
    StackFunction(name="linear", file="/v/site-packages/torch/nn/functional.py", owner=LIBRARY),
    StackFunction(name="told", file="/v/site-packages/perfkit/attach/hooks.py", owner=OURS),
    StackFunction(name="Queue.get", file="/usr/lib/python3.11/multiprocessing/queues.py", owner=LIBRARY),
)
CALLS = (
    Call(parent=-1, function=0, line=10),  # 0: main
    Call(parent=0, function=1, line=88),  # 1: main > __getitem__
    Call(parent=0, function=2, line=125),  # 2: main > linear
    Call(parent=0, function=3, line=5),  # 3: main > a hook
    Call(parent=-1, function=4, line=113),  # 4: waiting to be asked
)


def thread(*taken: tuple[int, str, str, int], **fields: Any) -> SampledThread:
    return SampledThread(
        **{
            "thread": LOOP,
            "pid": 1,
            "directory": "/me",
            "hz": 100.0,
            "seconds": 1.0,
            "functions": FUNCTIONS,
            "calls": CALLS,
            "taken": tuple(Taken(node=node, phase=phase, lock=lock, count=count) for node, phase, lock, count in taken),
            **fields,
        }
    )


def hot(*threads: SampledThread) -> ThreadStacks:
    found = thread_stacks(threads)
    assert found is not None
    return found


def test_the_programs_innermost_line_has_what_it_calls_of_libraries() -> None:
    found = hot(thread((0, "", HELD, 1), (1, "", HELD, 4), (2, "", FREE, 3), (2, "", HELD, 2)))
    first, second = found.lines
    assert (first.function, first.place, first.inside) == ("main", "train.py:10", "linear")
    assert (first.share, first.itself, first.total) == pytest.approx((0.6, 0.1, 1.0))
    assert first.held == pytest.approx(0.5)
    assert (second.place, second.share, second.itself) == ("data/set.py:88", pytest.approx(0.4), pytest.approx(0.4))
    [library] = found.libraries
    assert (library.place, library.itself) == ("torch/nn/functional.py:125", pytest.approx(0.5))
    assert found.held == pytest.approx(0.7)


def test_what_is_not_known_of_the_lock_is_not_counted() -> None:
    found = hot(thread((0, "", UNTOLD, 5), (1, "", HELD, 5)))
    assert found.held == 1.0
    assert found.lines[0].held is None or found.lines[1].held is None
    assert hot(thread((0, "", UNTOLD, 5))).held is None


def test_perfkits_own_time_is_its_own() -> None:
    found = hot(thread((3, "", HELD, 1), (0, "", HELD, 3)))
    assert found.ours == pytest.approx(0.25)
    assert [line.function for line in found.lines] == ["main"]


def test_workers_that_wait_to_be_asked_are_left_out() -> None:
    found = hot(
        thread((4, "", FREE, 9), (1, "", HELD, 1), thread=WORKER), thread((1, "", HELD, 1), thread=WORKER, pid=2)
    )
    assert (found.idle, found.samples, found.processes) == (9, 2, 2)
    assert found.lines[0].share == 1.0
    assert thread_stacks([thread((4, "", FREE, 9), thread=WORKER)]) is None
    assert hot(thread((4, "", FREE, 9))).unnamed == 1.0  # the loop itself is told of whatever it waits for


def test_nothing_sampled_is_nothing_known() -> None:
    assert hot_stacks([]) is None
    assert hot_stacks([thread()]) is None


def test_findings_name_lines() -> None:
    own = thread((1, "data", FREE, 30), (0, "", HELD, 41), (2, "forward", FREE, 29))
    worker = thread((1, "", HELD, 50), (4, "", FREE, 50), thread=WORKER)
    loop = changed(SAMPLE, stacks=hot_stacks([own]))
    assert in_python(loop) == "; of 100 samples of timed steps Python ran in 41 % in main (train.py:10)"
    assert in_data(loop) == "; of 100 samples of timed steps 30 % in __getitem__ (data/set.py:88)"
    assert in_data(changed(SAMPLE, stacks=hot_stacks([own, worker]))) == (
        "; of 50 samples of its working workers 100 % in __getitem__ (data/set.py:88)"
    )


def test_findings_name_no_lines_of_a_handful_of_samples() -> None:
    few = changed(SAMPLE, stacks=hot_stacks([thread((1, "data", FREE, 3), (0, "", HELD, 4))]))
    assert (in_python(few), in_data(few)) == ("", "")
    assert (in_python(SAMPLE), in_data(SAMPLE), in_python(None)) == ("", "", "")
    assert in_data(changed(SAMPLE, stacks=LoopStacks())) == ""
