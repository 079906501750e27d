"""The time of ops that only torch may have a formula for, on a device and on a CPU, by hand."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfkit.cost import formula_table
from perfkit.trace.ops import torch_share
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.ops.torch_share import is_torch_needed, measure_share_left_to_torch
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, op, write_trace

LEFT = "aten::special_bessel_j0"
SIZES = [(64, 64), (64, 64)]


@pytest.fixture(autouse=True)
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch is installed and was not imported; and it is not, however long these ops take."""
    monkeypatch.setattr(torch_share, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(torch_share, "is_torch_installed", lambda: True)
    monkeypatch.setattr(formula_table, "is_torch_installed", lambda: False)


def measured(folder: Path, events: Sequence[Event]) -> tuple[float, bool]:
    trace = read_trace(write_trace(folder / "trace.json", events))
    ops = read_ops(trace)
    columns = (trace, ops.event, ops.parent, ops.kernels.event, ops.kernel_op)
    return measure_share_left_to_torch(*columns), is_torch_needed(*columns)


@pytest.mark.parametrize(("left_us", "needed"), [(5.0, False), (45.0, True)])
def test_on_a_device_it_is_the_time_of_kernels(tmp_path: Path, left_us: float, needed: bool) -> None:
    events = [
        op("aten::mm", 0, 10, SIZES),
        launch(1, 1),
        kernel("gemm", 1, 20, 1000 - left_us),
        op(LEFT, 20, 700, SIZES[:1]),
        launch(2, 21),
        kernel("bessel", 2, 2000, left_us),
    ]
    share, used = measured(tmp_path, events)
    assert (share, used) == (pytest.approx(left_us / 1000), needed)


def test_on_a_cpu_it_is_the_time_of_ops_and_not_of_those_within_that_have_a_formula(tmp_path: Path) -> None:
    events = [
        op("aten::mm", 0, 60, SIZES),
        op(LEFT, 100, 40, SIZES[:1]),
        op("aten::mul", 110, 25, SIZES),
        op("aten::empty", 140, 0),
    ]
    share, used = measured(tmp_path, events)
    assert share == pytest.approx(15 / 100)
    assert used


def test_without_such_ops_there_is_none(tmp_path: Path) -> None:
    assert measured(tmp_path, [op("aten::mm", 0, 60, SIZES)])[0] == 0.0
