"""Simulated what-ifs against a machine that knows what a changed program takes.

All 500 programs: benchmarks/replay_programs.py.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.replay.graph_changes import apply_what_if, copy_unmodified
from perfkit.analysis.replay.replay import replay_trace, simulate_what_if
from perfkit.analysis.replay.what_if_syntax import parse_what_if
from perfkit.core.errors import UsageError
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.synthetic_machine import changes
from tests.fixtures.synthetic_machine.kineto import write
from tests.fixtures.synthetic_machine.machine import run, span_ns
from tests.fixtures.synthetic_machine.program import Instruction, Program, Work
from tests.fixtures.synthetic_machine.random_programs import program
from tests.fixtures.synthetic_machine.replayed import job_of_ranks, job_span_ns, replayed_program, replayed_ranks

CASES: dict[str, changes.Change] = {
    "": lambda same: same,
    "kernels=0.1": changes.kernels(0.1),
    "kernels=0.5": changes.kernels(0.5),
    "kernels=2": changes.kernels(2),
    "comm=0": changes.communication_free,
    "host=0.5": changes.host(0.5),
    "sync=none": changes.without_syncs,
    "fuse=elementwise": changes.fused,
    "kernels=0.5,host=0.5": lambda given: changes.host(0.5)(changes.kernels(0.5)(given)),
    "kernels=0.5,sync=none": lambda given: changes.without_syncs(changes.kernels(0.5)(given)),
}
# None of these were looked at while the rules were written.
SEEDS = range(10_000, 10_008)


def errors(seed: int, folder: Path, cases: dict[str, changes.Change]) -> dict[str, float]:
    """How far what is simulated of a program lies from what the machine takes for the changed one."""
    made = program(seed)
    ranks = replayed_ranks(made, folder)
    job = job_of_ranks(ranks)
    found = {}
    for text, change in cases.items():
        if text == "comm=0" and not ranks[0].work.select_work("comm").any():
            continue
        new = [
            apply_what_if(each.graph, each.work, parse_what_if(text)) if text else copy_unmodified(each.graph)
            for each in ranks
        ]
        found[text] = abs(job_span_ns(job, new) / span_ns(run(change(made))) - 1)
    return found


@pytest.mark.slow
def test_programs_that_no_one_tuned_on(tmp_path: Path) -> None:
    found = np.asarray([one for seed in SEEDS for one in errors(seed, tmp_path, CASES).values()])
    assert np.quantile(found, 0.9) <= 0.01
    assert (found > 0.05).mean() <= 0.01


def _traced(instructions: list[Instruction], folder: Path) -> tuple[Program, Path]:
    made = Program([[instructions]])
    return made, write(run(made)[0], folder / "trace.json")


def _op(ns: int, stream: int = 0, kind: str = "gemm") -> Instruction:
    return Instruction("op", before=5_000, after=2_000, work=[Work(stream, kind, ns, 2_000, 1_000)])


@pytest.mark.parametrize(
    ("ns", "text", "share"),
    [(100_000, "kernels=0.5", 0.49), (1_000, "kernels=0.5", 0.0), (1_000, "host=0.5", 0.5), (100_000, "host=0.5", 0.0)],
)
def test_what_does_not_limit_gains_nothing(ns: int, text: str, share: float, tmp_path: Path) -> None:
    _, path = _traced([_op(ns) for _ in range(100)], tmp_path)
    ops = read_ops(read_trace(path))
    replayed = replay_trace(ops)
    assert replayed is not None
    simulated = simulate_what_if(replayed, text)
    assert simulated.share == pytest.approx(share, abs=0.01)
    assert abs(replayed.result.error) < 0.001
    assert sum(replayed.result.critical_path.values()) == pytest.approx(replayed.result.replayed_s, rel=1e-6)


def test_a_device_that_waits_for_a_call_that_waits_for_it(tmp_path: Path) -> None:
    loop: Callable[[], list[Instruction]] = lambda: [_op(100_000), Instruction("sync", stream=0)]  # noqa: E731
    made, path = _traced([one for _ in range(50) for one in loop()], tmp_path)
    ops = read_ops(read_trace(path))
    replayed = replay_trace(ops)
    assert replayed is not None
    half = simulate_what_if(replayed, "kernels=0.5")
    true = 1 - span_ns(run(changes.kernels(0.5)(made))) / span_ns(run(made))
    assert half.share == pytest.approx(true, abs=0.005)
    without = simulate_what_if(replayed, "sync=none")
    true = 1 - span_ns(run(changes.without_syncs(made))) / span_ns(run(made))
    assert without.share == pytest.approx(true, abs=0.01)


@pytest.mark.parametrize("text", ["", "mm", "mm=fast", "mm=-1", "sync=all"])
def test_a_what_if_that_says_nothing(text: str) -> None:
    with pytest.raises(UsageError, match="--what-if"):
        parse_what_if(text)


def test_a_name_that_the_trace_lacks(tmp_path: Path) -> None:
    _, path = _traced([_op(1_000) for _ in range(10)], tmp_path)
    ops = read_ops(read_trace(path))
    replayed = replay_trace(ops)
    assert replayed is not None
    with pytest.raises(UsageError, match=r"aten::conv2d\b"):
        simulate_what_if(replayed, "aten::conv2d=0.5")


def test_the_gain_of_a_step_is_its_own(tmp_path: Path) -> None:
    steps = [
        one
        for number in range(4)
        for one in (Instruction("step", number=number), *(_op(100_000) for _ in range(20)), Instruction("end"))
    ]
    setup = Instruction("python", before=50_000_000)
    made = Program([[[_op(1_000), setup, *steps, Instruction("sync", stream=0)]]])
    half = simulate_what_if(replayed_program(made, tmp_path), "kernels=0.5")
    assert half.gain_s == pytest.approx(4 * 20 * 50e-6, rel=0.02)
    assert half.step_gain_s == pytest.approx(20 * 50e-6, rel=0.02)


def test_without_steps_no_gain_of_a_step_is_known(tmp_path: Path) -> None:
    made = Program([[[_op(100_000) for _ in range(20)]]])
    assert simulate_what_if(replayed_program(made, tmp_path), "kernels=0.5").step_gain_s is None
