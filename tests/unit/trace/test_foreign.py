"""A trace of somebody else's program on an AMD GPU (tests/fixtures/recorded/README.md)."""

from pathlib import Path

import numpy as np

from perfkit.trace.model import NONE, Category
from perfkit.trace.ops.ops import OpRole, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.trace_events import work_ns

TRACE = Path(__file__).parents[2] / "fixtures" / "recorded" / "mi250_toy_train.json.gz"


def test_every_kernel_of_the_toy_step_has_an_op_and_a_cost() -> None:
    trace = read_trace(TRACE)
    assert trace.devices[0] == "AMD Radeon Graphics"
    ops = read_ops(trace)
    assert ops.steps.number.tolist() == [1]  # the range of the second step was opened, but nothing ran in it
    assert len(ops.kernels) == 16
    assert len(trace.select_events(Category.KERNEL)) == 14
    assert (ops.kernel_op != NONE).all()
    assert (ops.role[ops.kernel_owner] == OpRole.COSTED).all()
    assert work_ns(ops).sum() == (trace.end_ns - trace.start_ns)[ops.kernels.event].sum()
    assert np.nansum(ops.flops) > 0
