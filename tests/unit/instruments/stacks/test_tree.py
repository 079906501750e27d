"""Stacks as a tree of calls, from paths made by hand."""

import sys
from types import CodeType

import perfkit.attach.guard
from perfkit.instruments.stacks.owners import owner_of
from perfkit.instruments.stacks.tree import Place, StackTree, line_of
from perfkit.store.stacks import FREE, HELD, LIBRARY, OURS, PROGRAM, SampledThread


def function(name: str, file: str = "/home/me/train.py") -> CodeType:
    names: dict[str, object] = {}
    exec(compile(f"def {name}():\n    first\n    second\n", file, "exec"), names)
    code: CodeType = names[name].__code__  # type: ignore[attr-defined]
    return code


def at(code: CodeType, line: int) -> Place:
    return code, next(start for start, _, of in code.co_lines() if of == line)


def sampled(tree: StackTree) -> SampledThread:
    return tree.sampled(thread="loop", hz=100.0, seconds=1.0)


def shown(found: SampledThread) -> dict[tuple[str, ...], int]:
    """Stacks, the outermost call first."""
    return {
        tuple(f"{found.functions[call.function].name}:{call.line}" for call in found.stack(taken.node))[
            ::-1
        ]: taken.count
        for taken in found.taken
    }


def test_equal_lines_of_a_stack_are_one_node() -> None:
    main, step = function("main"), function("step")
    tree = StackTree()
    tree.add([at(step, 2), at(main, 3)], "forward", HELD, 1)
    tree.add([at(step, 2), at(main, 3)], "forward", HELD, 2)
    tree.add([at(step, 3), at(main, 3)], "forward", HELD, 1)
    found = sampled(tree)
    assert shown(found) == {("main:3", "step:2"): 3, ("main:3", "step:3"): 1}
    assert (len(found.calls), found.samples) == (3, 4)


def test_samples_are_kept_apart_by_phase_and_lock() -> None:
    main, tree = function("main"), StackTree()
    for phase, lock in (("data", HELD), ("data", FREE), ("", HELD)):
        tree.add([at(main, 2)], phase, lock, 1)
    assert {(taken.phase, taken.lock) for taken in sampled(tree).taken} == {("data", HELD), ("data", FREE), ("", HELD)}


def test_what_finds_no_room_counts_for_its_caller() -> None:
    main, tree = function("main"), StackTree(most=2)
    tree.add([at(function("step"), 2), at(main, 2)], "", HELD, 1)
    tree.add([at(function("other"), 2), at(main, 2)], "", HELD, 5)
    found = sampled(tree)
    assert shown(found) == {("main:2", "step:2"): 1, ("main:2",): 5}
    assert found.cut == 5


def test_hooks_of_perfkit_that_call_on_are_left_out_and_those_that_work_are_told() -> None:
    hook = function("told", perfkit.attach.guard.__file__)
    tree = StackTree()
    tree.add([at(function("inner"), 2), at(hook, 2), at(function("main"), 2)], "", HELD, 1)
    tree.add([at(function("busy", perfkit.attach.guard.__file__), 2), at(function("main"), 2)], "", HELD, 1)
    found = sampled(tree)
    assert set(shown(found)) == {("main:2", "inner:2"), ("main:2", "busy:2")}
    assert {each.name: each.owner for each in found.functions}["busy"] == OURS


def test_the_path_of_a_frame_ends_at_the_outermost_function() -> None:
    def inner() -> list[Place]:
        return StackTree().path(sys._getframe(), test_the_path_of_a_frame_ends_at_the_outermost_function.__code__)

    assert [code.co_name for code, _ in inner()] == ["inner"]
    assert [code.co_name for code, _ in StackTree(deepest=1).path(sys._getframe())] == [sys._getframe().f_code.co_name]


def test_a_line_is_found_by_its_instruction() -> None:
    code = function("main")
    assert line_of(*at(code, 3)) == 3
    assert line_of(code, 10**6) == code.co_firstlineno


def test_whose_a_file_is() -> None:
    assert owner_of("/home/me/train.py") == owner_of("<ipython-input-3-1>") == PROGRAM
    assert owner_of("/x/lib/site-packages/torch/nn/functional.py") == owner_of("<eval_with_key>.7") == LIBRARY
    assert owner_of(sys.modules["threading"].__file__ or "") == owner_of("/tmp/torchinductor_me/ab.py") == LIBRARY
    assert owner_of(perfkit.attach.guard.__file__) == OURS
