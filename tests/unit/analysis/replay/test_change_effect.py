"""Changes given row by row against a machine that knows what the changed program takes."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.replay.change_effect import ChangeEffect, apply_effect, merge_effects
from perfkit.analysis.replay.replay import ReplayResult, simulate_length_s
from perfkit.analysis.replay.step_nodes import find_step_nodes
from perfkit.analysis.trace.time.intervals import EMPTY, merge_intervals
from perfkit.trace.model import Category
from tests.fixtures.synthetic_machine import changes
from tests.fixtures.synthetic_machine.machine import run, span_ns
from tests.fixtures.synthetic_machine.program import Instruction, Program, Work
from tests.fixtures.synthetic_machine.replayed import replayed_program

Rows = Callable[[int], bool]


def _ops(count: int, ns: int) -> list[Instruction]:
    kinds = ("gemm", "elementwise")
    return [
        Instruction("op", before=5_000, after=2_000, work=[Work(0, kinds[number % 2], ns, 2_000, 1_000)])
        for number in range(count)
    ]


def _nothing(replayed: ReplayResult) -> ChangeEffect:
    count, none = len(replayed.work), np.empty(0, np.int64)
    return ChangeEffect(np.ones(count), np.zeros(count, np.bool_), none, none, EMPTY, EMPTY, EMPTY)


def _share(replayed: ReplayResult, effect: ChangeEffect) -> float:
    before = simulate_length_s(replayed, None)
    return 1 - simulate_length_s(replayed, None, apply_effect(replayed.graph, replayed.work, effect)) / before


def _true(before: Program, after: Program) -> float:
    return 1 - span_ns(run(after)) / span_ns(run(before))


@pytest.mark.parametrize("ns", [1_000, 12_000, 100_000])
def test_rows_take_a_part_of_their_time(ns: int, tmp_path: Path) -> None:
    made = Program([[_ops(100, ns)]])
    replayed = replayed_program(made, tmp_path)
    odd = np.arange(100) % 2 == 1
    changed = deepcopy(made)
    for one in changed.ranks[0][0][1::2]:
        one.work[0].ns = round(one.work[0].ns * 0.25)
    effect = replace(_nothing(replayed), takes=np.where(odd, 0.25, 1.0))
    assert _share(replayed, effect) == pytest.approx(_true(made, changed), abs=0.005)


@pytest.mark.parametrize("ns", [1_000, 100_000])
def test_rows_that_join_need_no_launch_and_nothing_of_the_host(ns: int, tmp_path: Path) -> None:
    made = Program([[_ops(100, ns)]])
    replayed = replayed_program(made, tmp_path)
    odd = np.arange(100) % 2 == 1
    changed = deepcopy(made)
    main = changed.ranks[0][0]
    for first, second in zip(main[::2], main[1::2], strict=True):
        first.work[0].ns += second.work[0].ns
    changed.ranks[0][0] = main[::2]
    assert _share(replayed, replace(_nothing(replayed), joins=odd)) == pytest.approx(_true(made, changed), abs=0.01)


@pytest.mark.parametrize("ns", [1_000, 50_000])
def test_calls_that_go_wait_no_longer(ns: int, tmp_path: Path) -> None:
    loop = [one for each in _ops(50, ns) for one in (each, Instruction("sync", stream=0))]
    made = Program([[loop]])
    replayed = replayed_program(made, tmp_path)
    trace = replayed.graph.ops.trace
    calls = trace.select_events(Category.LAUNCH)
    waits = calls[[trace.names[name] == "cudaStreamSynchronize" for name in trace.name[calls].tolist()]]
    gone = _share(replayed, replace(_nothing(replayed), gone=waits))
    assert gone == pytest.approx(_true(made, changes.without_syncs(made)), abs=0.01)
    # A call that merely returns keeps its own time, which a host that is the limit has to spend.
    returned = _share(replayed, replace(_nothing(replayed), returns=waits))
    assert returned < gone if ns == 1_000 else returned == pytest.approx(gone, abs=0.01)


def test_spans_of_the_host_go(tmp_path: Path) -> None:
    pause = Instruction("python", before=2_000_000)
    made = Program([[[*_ops(20, 50_000), pause, *_ops(20, 50_000)]]])
    replayed = replayed_program(made, tmp_path)
    without = Program([[_ops(40, 50_000)]])
    device = replayed.graph.device
    gaps = merge_intervals(device.ended[:-1], device.begun[1:])
    effect = replace(_nothing(replayed), idle=gaps[gaps[:, 1] - gaps[:, 0] > 500_000])
    assert _share(replayed, effect) == pytest.approx(_true(made, without), abs=0.01)


def test_launching_that_takes_the_host_no_time_leaves_the_device(tmp_path: Path) -> None:
    replayed = replayed_program(Program([[_ops(100, 3_000)]]), tmp_path)
    everywhere = np.asarray([[0, np.iinfo(np.int64).max]])
    free = _share(replayed, replace(_nothing(replayed), launched=everywhere))
    span = simulate_length_s(replayed, find_step_nodes(replayed.graph))
    assert span * (1 - free) == pytest.approx(100 * 4e-6, rel=0.1)  # kernels, and the gaps that they were given
    assert _share(replayed, replace(_nothing(replayed), started=everywhere)) < 0.01  # the host is the limit


def test_of_several_effects_each_row_takes_the_least(tmp_path: Path) -> None:
    replayed = replayed_program(Program([[_ops(100, 100_000)]]), tmp_path)
    odd = np.arange(100) % 2 == 1
    half = replace(_nothing(replayed), takes=np.where(odd, 0.5, 1.0))
    less = replace(_nothing(replayed), takes=np.where(odd, 0.4, 0.9))
    both = merge_effects([half, less])
    assert _share(replayed, both) == pytest.approx(_share(replayed, less))
    assert _share(replayed, both) < _share(replayed, half) + _share(replayed, less)
