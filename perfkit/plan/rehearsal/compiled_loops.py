"""Joins the loops that Inductor schedules for a CPU into the kernels that it makes for a GPU, and counts their bytes.

A CPU's loops end where a reduction does. A kernel of Triton holds rows in registers, so that what reads a reduction's
result or its operands follows in the same kernel (`SIMDScheduling.can_fuse`, torch/_inductor/codegen/simd.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any


@dataclass(frozen=True)
class Loop:
    """Nodes of Inductor's scheduler in one loop, or in one kernel of a GPU."""

    nodes: tuple[Any, ...]

    @property
    def rows(self) -> tuple[int, int]:
        """The numbers of results and of operands of each: of its reduction if it has one."""
        return max((_count_rows(node) for node in self.nodes), key=lambda rows: rows[1])

    @property
    def written(self) -> set[str]:
        return {access.name for node in self.nodes for access in node.read_writes.writes}

    @property
    def read(self) -> set[str]:
        return {access.name for node in self.nodes for access in node.read_writes.reads}

    @property
    def accesses(self) -> set[Any]:
        """Memory, and the order in which it is gone through, if that is known (`StarDep`: it is not)."""
        return {
            access.normalize() if hasattr(access, "normalize") else access
            for node in self.nodes
            for access in node.read_writes.reads_and_writes()
        }

    def count_bytes(self) -> int:
        """Bytes by Inductor's own count (`get_read_write_buffers_sizes`), without what no other loop reads."""
        from torch._inductor.scheduler import FusedSchedulerNode  # not sooner: Inductor takes seconds to import

        first, *others = self.nodes
        whole = FusedSchedulerNode(first.scheduler, list(self.nodes)) if others else first
        return int(whole.get_read_write_buffers_sizes())


def make_loop(node: Any) -> Loop:
    """The loop of a node, of which Inductor counts what is between the parts of joined outer loops as memory."""
    return Loop(tuple(node.get_nodes()))


def join_loops(loops: Sequence[Loop]) -> list[Loop]:
    """Join each loop into the first of the kernels before it that it fits, with nothing it reads made in between."""
    kernels: list[Loop] = []
    for loop in loops:
        place = len(kernels)
        for index in range(len(kernels) - 1, -1, -1):
            if _is_joined(kernels[index], loop):
                place = index
            if kernels[index].written & loop.read:
                break
        kernels[place:] = (
            [Loop((*kernels[place].nodes, *loop.nodes)), *kernels[place + 1 :]] if place < len(kernels) else [loop]
        )
    return kernels


def _is_joined(kernel: Loop, loop: Loop) -> bool:
    """True if both go over the same rows, and through some memory in the same order."""
    (results, operands), (more, of_each) = kernel.rows, loop.rows
    if operands > 1 and of_each > 1:
        fits = (results, operands) == (more, of_each)
    else:
        fits = results == more or results * operands == more * of_each
    return fits and not kernel.accesses.isdisjoint(loop.accesses)


def get_lowered_graph() -> Any:
    """The graph that Inductor lowers in this thread."""
    from torch._inductor.virtualized import V  # not sooner: Inductor takes seconds to import

    return V.graph


def _count_rows(node: Any) -> tuple[int, int]:
    results, operands = (
        prod(get_lowered_graph().sizevars.optimization_hint(size, fallback=1) for size in sizes)
        for sizes in node.get_ranges()
    )
    return results, operands
