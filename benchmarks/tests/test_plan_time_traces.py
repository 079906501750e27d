"""Errors of planned kernel times: what is read, and how a median errs."""

from math import log
from pathlib import Path

import pytest

from benchmarks.plan_time_traces import _by_median, _told
from perfkit.plan.timing.efficiency_store import EfficiencySample, LearnedProgram
from tests.fixtures.plan_roofs import BANDWIDTH, roofs


def test_times_of_calls_are_told_with_what_each_call_does(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text(
        "device,program,op,operands,dtype,calls,us\n"
        'h100-sxm,a model,aten::mm,"[[4096,1024],[1024,2048]]",bf16,3,20.5\n'
        'h100-sxm,a model,aten::mul,"[[4096,1024],[]]",bf16,2,10\n'
    )
    (learned,) = _told(path)
    (program,) = learned.programs
    product, scaled = program.samples
    assert (learned.device, program.name, program.sweep) == ("h100-sxm", "a model", False)
    assert (product.op, product.calls, product.flops) == ("aten::mm", 3, 2 * 4096 * 1024 * 2048)
    assert product.seconds == pytest.approx(20.5e-6)
    assert (scaled.op_class, scaled.bytes) == ("elementwise", 2 * 2 * 4096 * 1024)


def test_a_class_takes_the_median_of_its_samples_over_their_least_times() -> None:
    def program(*ratios: float) -> LearnedProgram:
        return LearnedProgram(
            name=str(ratios),
            samples=tuple(
                EfficiencySample(
                    op_class="copy", dtype="fp32", matrix=False, flops=0.0, bytes=BANDWIDTH, calls=1, seconds=ratio
                )
                for ratio in ratios
            ),
        )

    assert _by_median([program(2, 3, 8)], program(6), roofs()) == pytest.approx(log(3 / 6))
