"""Loops of a CPU that are one kernel of a GPU, by hand."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from perfkit.plan.rehearsal.compiled_loops import Loop, join_loops


@pytest.fixture(autouse=True)
def sizes() -> Iterator[None]:
    from torch._inductor.virtualized import V

    known = SimpleNamespace(sizevars=SimpleNamespace(optimization_hint=lambda size, fallback: size))
    with V.set_graph_handler(known):  # type: ignore[arg-type]
        yield


class Access(NamedTuple):
    name: str
    order: str

    def normalize(self) -> "Access":
        return self


class WholeAccess(NamedTuple):
    """Of a buffer in no known order, as Inductor's `StarDep`, which has no `normalize`."""

    name: str


@dataclass(frozen=True)
class Accesses:
    """Names, each with the order in which its memory is gone through: `x`, `x/columns`, or `x/*` if in no known one."""

    reads: list[Access | WholeAccess]
    writes: list[Access | WholeAccess]

    def reads_and_writes(self) -> list[Access | WholeAccess]:
        return self.reads + self.writes


def make_access(name: str, order: str) -> Access | WholeAccess:
    return WholeAccess(name) if order == "*" else Access(name, order)


@dataclass(frozen=True, eq=False)
class Node:
    ranges: tuple[tuple[int, ...], tuple[int, ...]]
    reads: str
    writes: str

    def get_ranges(self) -> Any:
        return self.ranges

    @property
    def read_writes(self) -> Accesses:
        reads, writes = (
            [make_access(*name.partition("/")[::2]) for name in names.split()] for names in (self.reads, self.writes)
        )
        return Accesses(reads, writes)


def loop(results: int, operands: int, reads: str, writes: str) -> Loop:
    return Loop((Node(((results,), (operands,)), reads, writes),))


def join(*loops: Loop) -> list[list[int]]:
    """The loops of each kernel, by place."""
    return [[loops.index(Loop((node,))) for node in kernel.nodes] for kernel in join_loops(loops)]


def test_a_softmax_is_one_kernel() -> None:
    assert join(
        loop(6, 50, "scores", "largest"),
        loop(300, 1, "scores largest", "powers"),
        loop(6, 50, "powers", "sum"),
        loop(300, 1, "powers sum", "shares"),
    ) == [[0, 1, 2, 3]]


def test_reductions_of_rows_and_of_columns_are_two() -> None:
    columns = loop(50, 6, "x/columns", "sums"), loop(50, 6, "x/columns y/columns", "others")
    assert join(loop(6, 50, "x", "rows"), *columns) == [[0], [1, 2]]


def test_loops_that_share_nothing_are_several() -> None:
    assert join(loop(300, 1, "x", "a"), loop(300, 1, "y", "b")) == [[0], [1]]


def test_a_buffer_read_in_no_known_order_is_shared_with_another_such_read_alone() -> None:
    table = loop(300, 1, "table/*", "a")
    assert join(table, loop(300, 1, "table/*", "b")) == [[0, 1]]
    assert join(table, loop(300, 1, "table", "b")) == [[0], [1]]


def test_a_loop_stays_after_what_it_reads() -> None:
    first, columns = loop(300, 1, "x", "a"), loop(50, 6, "a/columns", "sums")
    assert join(first, columns, loop(300, 1, "x", "b")) == [[0, 2], [1]]
    assert join(first, columns, loop(300, 1, "x sums/broadcast", "b")) == [[0], [1], [2]]
