"""Each rule of the replay on a program that needs it: with its edges the true time is found, without them it is not."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.replay.edges import EdgeKind
from perfkit.analysis.replay.graph_changes import apply_what_if
from perfkit.analysis.replay.simulation import simulate_times
from perfkit.analysis.replay.what_if_syntax import parse_what_if
from tests.fixtures.synthetic_machine import changes
from tests.fixtures.synthetic_machine.machine import run, span_ns
from tests.fixtures.synthetic_machine.program import Instruction, Program, Work
from tests.fixtures.synthetic_machine.replayed import replayed_program


def _op(ns: int, stream: int = 0, kind: str = "gemm", before: int = 5_000) -> Instruction:
    return Instruction("op", before=before, after=2_000, work=[Work(stream, kind, ns, 2_000, 1_000)])


def _between(source: int, target: int, event: int) -> list[Instruction]:
    return [
        Instruction("record", before=1_000, stream=source, event=event),
        Instruction("wait", before=1_000, stream=target, event=event),
    ]


def _full_queue() -> Program:
    """The host would be done long before the device, then works on: a full queue keeps it."""
    last = Instruction("python", before=150_000_000)
    return Program([[[*(_op(40_000) for _ in range(2_000)), last, _op(40_000)]]])


def _hand_off() -> Program:
    """A thread that sleeps while another one works."""
    main, backward = [], []
    for number in range(20):
        main += [*(_op(1_000) for _ in range(10)), Instruction("signal", token=2 * number)]
        main.append(Instruction("await", token=2 * number + 1, before=10_000))
        backward += [Instruction("await", token=2 * number, before=10_000), *(_op(1_000) for _ in range(30))]
        backward.append(Instruction("signal", token=2 * number + 1))
    return Program([[[*main, _op(1_000)], backward]])


def _events() -> Program:
    """Work that goes back and forth between two streams."""
    made = []
    for number in range(50):
        made += [_op(60_000), *_between(0, 1, 2 * number), _op(60_000, stream=1), *_between(1, 0, 2 * number + 1)]
    return Program([[made]])


def _waiting_calls() -> Program:
    return Program([[[one for _ in range(50) for one in (_op(100_000), Instruction("sync", stream=0))]]])


def _blocking_copies() -> Program:
    """Copies that return when all before them is done: the device has nothing to do meanwhile."""
    copy = Instruction("copy", before=5_000, after=2_000, work=[Work(0, "copy", 20_000, 1_000, 1_000)])
    return Program([[[one for _ in range(50) for one in (_op(100_000), copy)]]])


@dataclass(frozen=True)
class Case:
    made: Callable[[], Program]
    kind: EdgeKind
    text: str
    change: changes.Change


CASES = {
    "a full queue": Case(_full_queue, EdgeKind.QUEUE, "kernels=2", changes.kernels(2)),
    "a hand-off": Case(_hand_off, EdgeKind.HANDOFF, "host=0.5", changes.host(0.5)),
    "events": Case(_events, EdgeKind.EVENT, "kernels=2", changes.kernels(2)),
    "calls that wait": Case(_waiting_calls, EdgeKind.SYNC, "kernels=2", changes.kernels(2)),
    "copies that block": Case(_blocking_copies, EdgeKind.SYNC, "kernels=2", changes.kernels(2)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_rule_is_for(case: Case, tmp_path: Path) -> None:
    made = case.made()
    replayed = replayed_program(made, tmp_path)
    graph = replayed.graph
    assert abs(replayed.result.error) < 0.01
    true = span_ns(run(case.change(made)))
    new = apply_what_if(graph, replayed.work, parse_what_if(case.text))

    def span() -> float:
        return float(
            (simulate_times(graph.order, new.compute_weights(graph))[graph.order.place] + new.duration_ns).max()
        )

    assert span() == pytest.approx(true, rel=0.01)
    new.lag_ns[graph.edges.kind == case.kind] = -np.inf
    assert abs(span() / true - 1) > 0.05


def test_a_thread_is_woken_after_the_wait_that_another_one_ended_with(tmp_path: Path) -> None:
    main, backward = [], []
    for number in range(20):
        main += [_op(60_000), Instruction("sync", stream=0), Instruction("signal", token=2 * number)]
        main.append(Instruction("await", token=2 * number + 1, before=10_000))
        backward += [Instruction("await", token=2 * number, before=10_000), *(_op(1_000) for _ in range(30))]
        backward.append(Instruction("signal", token=2 * number + 1))
    made = Program([[[*main, _op(1_000)], backward]])
    replayed = replayed_program(made, tmp_path)
    assert abs(replayed.result.error) < 0.005
    new = apply_what_if(replayed.graph, replayed.work, parse_what_if("kernels=3"))
    times = simulate_times(replayed.graph.order, new.compute_weights(replayed.graph))
    span = float((times[replayed.graph.order.place] + new.duration_ns).max())
    assert span == pytest.approx(span_ns(run(changes.kernels(3)(made))), rel=0.01)


def test_nothing_is_fused_across_a_hand_off_or_the_end_of_a_step(tmp_path: Path) -> None:
    short = [_op(30_000, kind="elementwise") for _ in range(2)]
    step = [Instruction("step"), *short, Instruction("signal", token=0), Instruction("await", token=1), *short]
    main = [*step, Instruction("end", number=0), Instruction("step", number=1), *short, Instruction("end", number=1)]
    backward = [Instruction("await", token=0, before=10_000), _op(60_000), _op(60_000), Instruction("signal", token=1)]
    made = Program([[[*main, Instruction("sync", stream=0)], backward]])
    replayed = replayed_program(made, tmp_path)
    new = apply_what_if(replayed.graph, replayed.work, parse_what_if("fuse=elementwise"))
    kernels = new.duration_ns[replayed.graph.first_kernel :]
    assert int((kernels > 0).sum()) == 3 + 2  # of each pair one is left
