"""Hot lines of stacks made by hand."""

import re
from typing import Any

import pytest

from perfkit.analysis.model.stacks import LoopStacks, ThreadStacks
from perfkit.analysis.stacks.hot_lines import summarize_loop_stacks, summarize_thread_stacks
from perfkit.analysis.trace.findings.program_lines import name_data_lines, name_python_lines
from perfkit.store.stacks import (
    LIBRARY,
    LOOP,
    OURS,
    PROGRAM,
    WORKER,
    SampledStacks,
    SampledThread,
    StackCall,
    StackFunction,
    StackSamples,
)
from tests.fixtures.sample_loops import LOOP as SAMPLE
from tests.fixtures.suites import changed

FUNCTIONS = (
    StackFunction(name="main", file="/me/train.py", owner=PROGRAM),
    StackFunction(name="Set.__getitem__", file="/me/data/set.py", owner=PROGRAM),
    StackFunction(name="linear", file="/v/site-packages/torch/nn/functional.py", owner=LIBRARY),
    StackFunction(name="told", file="/v/site-packages/perfkit/attach/loop/loop_hooks.py", owner=OURS),
    StackFunction(name="Queue.get", file="/usr/lib/python3.11/multiprocessing/queues.py", owner=LIBRARY),
)
CALLS = (
    StackCall(parent=-1, function=0, line=10),  # 0: main
    StackCall(parent=0, function=1, line=88),  # 1: main > __getitem__
    StackCall(parent=0, function=2, line=125),  # 2: main > linear
    StackCall(parent=0, function=3, line=5),  # 3: main > a hook
    StackCall(parent=-1, function=4, line=113),  # 4: waiting to be asked
)


Counted = tuple[int, str, int]


def counted(taken: tuple[Counted, ...]) -> tuple[StackSamples, ...]:
    return tuple(StackSamples(node=node, phase=phase, count=count) for node, phase, count in taken)


def thread(*taken: Counted, held: tuple[Counted, ...] | None = None, **fields: Any) -> SampledThread:
    return SampledThread(
        **{
            "thread": LOOP,
            "pid": 1,
            "directory": "/me",
            "hz": 100.0,
            "seconds": 1.0,
            "functions": FUNCTIONS,
            "calls": CALLS,
            "stack_samples": counted(taken),
            "lock_samples": None if held is None else counted(held),
            **fields,
        }
    )


def hot(*threads: SampledThread) -> ThreadStacks:
    found = summarize_thread_stacks(threads)
    assert found is not None
    return found


def test_the_programs_innermost_line_has_what_it_calls_of_libraries() -> None:
    found = hot(thread((0, "", 1), (1, "", 4), (2, "", 5), held=((0, "", 1), (1, "", 4), (2, "", 2))))
    first, second = found.lines
    assert (first.function, first.place, first.library_function) == ("main", "train.py:10", "linear")
    assert (first.share, first.self_share, first.total_share) == pytest.approx((0.6, 0.1, 1.0))
    assert first.lock_share == pytest.approx(0.5)
    assert (second.place, second.share, second.self_share) == ("data/set.py:88", pytest.approx(0.4), pytest.approx(0.4))
    [library] = found.libraries
    assert (library.place, library.self_share) == ("torch/nn/functional.py:125", pytest.approx(0.5))
    assert found.lock_share == pytest.approx(0.7)


def test_samples_of_the_lock_are_others_than_those_of_the_stack() -> None:
    found = hot(thread((0, "", 5), (1, "", 5), held=((1, "", 7), (3, "", 1), (4, "", 1))))
    assert (found.lock_share, [line.lock_share for line in found.lines]) == (pytest.approx(0.9), [0.0, 1.0])
    assert [place.function for place in found.python_lines] == ["Set.__getitem__"]
    assert hot(thread((0, "", 5), held=())).lock_share == 0.0
    unknown = hot(thread((0, "", 5)))
    assert (unknown.lock_share, unknown.lines[0].lock_share, unknown.python_lines) == (None, None, ())


def test_perfkits_own_time_is_its_own() -> None:
    found = hot(thread((3, "", 1), (0, "", 3)))
    assert found.perfkit_share == pytest.approx(0.25)
    assert [line.function for line in found.lines] == ["main"]


def test_workers_that_wait_to_be_asked_are_left_out() -> None:
    found = hot(thread((4, "", 9), (1, "", 1), thread=WORKER), thread((1, "", 1), thread=WORKER, pid=2))
    assert (found.idle_samples, found.samples, found.processes) == (9, 2, 2)
    assert found.lines[0].share == 1.0
    assert summarize_thread_stacks([thread((4, "", 9), thread=WORKER)]) is None
    assert hot(thread((4, "", 9))).unnamed_share == 1.0  # the loop itself is told of whatever it waits for


def test_nothing_sampled_is_nothing_known() -> None:
    assert summarize_loop_stacks([]) is None
    assert summarize_loop_stacks([SampledStacks(threads=(thread(),), reason="no")]) == LoopStacks(reason="no")


def test_what_sampling_took_is_a_ranks_share_of_a_core() -> None:
    rank = SampledStacks(threads=(thread((0, "", 8)),), seconds=2.0, cost_s=0.1, failed_samples=1)
    found = summarize_loop_stacks([rank, rank])
    assert found is not None
    assert (found.sampling_cost, found.failed_share) == (pytest.approx(0.05), pytest.approx(1 / 9))


def test_samples_that_failed_are_a_share_of_those_of_all_threads() -> None:
    worker = thread((1, "", 6), thread=WORKER, pid=2)
    found = summarize_loop_stacks(
        [SampledStacks(threads=(thread((0, "", 8), held=((0, "", 4),)), worker), seconds=2.0, failed_samples=2)]
    )
    assert found is not None
    assert found.failed_share == pytest.approx(2 / 20)


def test_findings_name_lines() -> None:
    own = thread((1, "data", 30), (0, "", 41), (2, "forward", 29), held=((1, "data", 9), (0, "", 41)))
    worker = thread((1, "", 50), (4, "", 50), thread=WORKER)
    loop = changed(SAMPLE, stacks=summarize_loop_stacks([SampledStacks(threads=(own,))]))
    assert re.fullmatch(r"; 100 [^0-9]*41 % in main \(train\.py:10\)", name_python_lines(loop))
    assert re.fullmatch(r"; 100 [^0-9]*30 % in __getitem__ \(data/set\.py:88\)", name_data_lines(loop))
    fed = changed(SAMPLE, stacks=summarize_loop_stacks([SampledStacks(threads=(own, worker))]))
    assert re.fullmatch(r"; 50 [^0-9]*workers[^0-9]*100 % in __getitem__ \(data/set\.py:88\)", name_data_lines(fed))


def test_findings_name_no_lines_of_a_handful_of_samples() -> None:
    few = changed(
        SAMPLE,
        stacks=summarize_loop_stacks(
            [SampledStacks(threads=(thread((1, "data", 3), (0, "", 4), held=((0, "", 4),)),))]
        ),
    )
    assert (name_python_lines(few), name_data_lines(few)) == ("", "")
    assert (name_python_lines(SAMPLE), name_data_lines(SAMPLE), name_python_lines(None)) == ("", "", "")
    assert name_data_lines(changed(SAMPLE, stacks=LoopStacks())) == ""
