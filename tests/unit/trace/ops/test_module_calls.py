"""Modules as paths, from stacks or from ranges."""

from pathlib import Path

from tests.fixtures.trace_events import Event, event, ops_of, range_, sequence


def module(name: str, ts: float, dur: float, tid: int = 1) -> Event:
    return event(f"nn.Module: {name}", ts, dur, "python_function", tid)


def names(tmp_path: Path, *events: Event) -> list[str]:
    ops = ops_of(tmp_path, *events)
    return [ops.get_module_name(row) for row in range(len(ops))]


def test_a_path_from_the_outermost_module(tmp_path: Path) -> None:
    assert names(
        tmp_path,
        module("Bert_0", 0, 50), module("Layer_0", 1, 20), module("Linear_0", 2, 5), module("Layer_1", 30, 10),
        event("aten::mm", 3, 1), event("aten::add", 10, 1), event("aten::mul", 31, 1), event("aten::sum", 60, 1),
    ) == ["Bert_0/Layer_0/Linear_0", "Bert_0/Layer_0", "Bert_0/Layer_1", ""]  # fmt: skip


def test_threads_keep_apart_where_they_match_those_of_ops(tmp_path: Path) -> None:
    assert names(
        tmp_path,
        module("A_0", 0, 9, tid=1),
        module("B_0", 1, 9, tid=2),
        event("x", 3, 1, tid=1),
        event("y", 3, 1, tid=2),
    ) == ["A_0", "B_0"]


def test_python_threads_numbered_on_their_own(tmp_path: Path) -> None:
    assert names(tmp_path, module("A_0", 0, 9, tid=0), event("x", 3, 1, tid=77)) == ["A_0"]


def test_a_module_that_a_checkpoint_runs_again_keeps_its_place(tmp_path: Path) -> None:
    assert names(
        tmp_path,
        module("Net_0", 0, 20), module("Block_1", 1, 10), module("Linear_4", 2, 5), event("aten::mm", 3, 1),
        module("Block_1", 30, 10), module("Linear_4", 31, 5), event("aten::mm", 32, 1),
    ) == ["Net_0/Block_1/Linear_4"] * 2  # fmt: skip


def test_a_backward_op_belongs_to_the_module_of_its_forward_op(tmp_path: Path) -> None:
    node = sequence(5, backward=True)
    assert names(
        tmp_path,
        module("Linear_0", 0, 10), event("aten::addmm", 1, 2, **sequence(5)),
        event("autograd::engine::evaluate_function: AddmmBackward0", 20, 9, tid=2, **node),
        event("AddmmBackward0", 21, 7, tid=2, **node),
        event("aten::mm", 22, 2, tid=2),
    ) == ["Linear_0"] * 4  # fmt: skip


def test_ranges_that_name_modules(tmp_path: Path) -> None:
    assert names(
        tmp_path,
        range_("FSDP::pre_forward (layers.3)", 0, 5), event("x", 1, 1),
        range_("layers.3.mlp", 10, 5), event("y", 11, 1),
        range_("something else", 20, 5), event("z", 21, 1),
    ) == ["layers.3", "layers.3.mlp", ""]  # fmt: skip


def test_a_recursion_without_end_has_no_path_without_end(tmp_path: Path) -> None:
    deep = [module(f"M_{level}", level, 1000 - 2 * level) for level in range(300)]
    (path,) = names(tmp_path, *deep, event("aten::mm", 400, 1))
    assert path == "/".join(f"M_{level}" for level in range(64))
