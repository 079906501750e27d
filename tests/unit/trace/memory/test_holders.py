"""The op that a user would name for an allocation or a free."""

from pathlib import Path

import numpy as np
import pytest

from perfkit.core.allocations import NONE
from perfkit.trace.memory.holders import MemoryHolders, find_holders
from perfkit.trace.memory.text_numbers import TraceTextNumbers
from tests.fixtures.trace_events import Event, event, ops_of, range_


def named(folder: Path, moment_us: float, *events: Event) -> tuple[str, str]:
    """What made and what freed memory at a moment on the main thread."""
    table = TraceTextNumbers()
    ops = ops_of(folder, *events)
    found: MemoryHolders = find_holders(ops, np.zeros(1, np.int32), np.array([int(moment_us * 1000)]), table)
    names = table.list_texts()
    return names[int(found.made_by[0])], names[int(found.freed_by[0])]


def nest(*names: str) -> list[Event]:
    """Ops within each other, the outermost first, all open at 50."""
    return [event(name, depth, 100 - 2 * depth) for depth, name in enumerate(names)]


NODE = "autograd::engine::evaluate_function: MulBackward0"


@pytest.mark.parametrize(
    ("names", "made", "freed"),
    [
        (("aten::linear", "aten::addmm"), "aten::addmm", "aten::addmm"),
        (("aten::mul", "aten::empty_like", "aten::empty_strided"), "aten::mul", "aten::mul"),
        (("aten::zeros_like", "aten::empty_like", "aten::empty_strided"), "aten::zeros_like", "aten::zeros_like"),
        (("aten::linear", "aten::to", "aten::_to_copy", "aten::empty_strided"), "aten::to", "aten::to"),
        (("aten::_to_copy", "aten::empty_strided"), "aten::_to_copy", "aten::_to_copy"),
        (("aten::contiguous", "aten::clone", "aten::empty"), "aten::contiguous", "aten::contiguous"),
        (("aten::clone", "aten::empty"), "aten::clone", "aten::clone"),
        ((NODE, "MulBackward0", "aten::mul"), "aten::mul", "MulBackward0"),
        ((NODE, "MulBackward0"), "MulBackward0", "MulBackward0"),
        ((NODE, "aten::zeros"), "MulBackward0", "MulBackward0"),
        (("ProfilerStep#1", "aten::mul"), "aten::mul", "aten::mul"),
        (("ProfilerStep#1", "aten::empty"), "aten::empty", "aten::empty"),
        (("ProfilerStep#1",), "", ""),
        (("forward", "aten::ones", "aten::empty"), "aten::ones", "aten::ones"),
    ],
)
def test_the_innermost_op_that_does_more_than_obtain_memory(
    tmp_path: Path, names: tuple[str, ...], made: str, freed: str
) -> None:
    assert named(tmp_path, 50, *nest(*names)) == (made, freed)


def test_outside_of_all_ops_nothing_is_known(tmp_path: Path) -> None:
    assert named(tmp_path, 200, *nest("aten::mul")) == ("", "")


def test_ranges_of_sharding_count_as_ops(tmp_path: Path) -> None:
    outer = range_("FSDP::all_gather (layers.0)", 0, 100)
    assert named(tmp_path, 50, outer) == (outer["name"], outer["name"])
    assert named(tmp_path, 50, outer, event("aten::empty", 40, 20)) == (outer["name"], outer["name"])
    assert named(tmp_path, 50, outer, event("aten::cat", 40, 20)) == ("aten::cat", outer["name"])


def test_ranges_of_optimizers_are_told_where_nothing_else_is_around(tmp_path: Path) -> None:
    outer = range_("Optimizer.zero_grad#SGD.zero_grad", 0, 100)
    assert named(tmp_path, 50, outer) == (outer["name"], outer["name"])
    assert named(tmp_path, 50, outer, event("aten::zeros_like", 40, 20))[0] == "aten::zeros_like"
    assert named(tmp_path, 50, range_("my range", 0, 100)) == ("", "")


def test_the_row_of_the_innermost_op(tmp_path: Path) -> None:
    ops = ops_of(tmp_path, *nest("aten::linear", "aten::addmm"), range_("FSDP::x", 10, 50))
    found = find_holders(ops, np.zeros(2, np.int32), np.array([50_000, 500_000]), TraceTextNumbers())
    assert found.op.tolist() == [1, NONE]
