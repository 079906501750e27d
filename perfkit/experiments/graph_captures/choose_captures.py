"""Chooses the capture that a replayed graph came from.

Servers capture one graph for each of many batch sizes, and these differ in the shapes of ops alone. Where several
captures fit alike, what the replay recorded decides: names and grids of kernels where the capture tells them; else
dimensions in which the captures differ (a batch size) that are grids of kernels, and the size of the batch in the range
around the launch: servers replay the graph of the least size that holds it. Where these do not decide, or contradict
each other, the graph's ops stay unknown.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from perfkit.cost.kernels.gemm_kernel import is_matrix_kernel
from perfkit.experiments.graph_captures.align_nodes import NodeAlignment, align_nodes
from perfkit.experiments.graph_captures.captured_graphs import CapturedGraph
from perfkit.trace.graphs.node_tokens import NodeToken
from perfkit.trace.graphs.replayed_graphs import ReplayedLaunches
from perfkit.trace.model import NONE, Category
from perfkit.trace.ops.kernels import is_collective_kernel, is_compiled_kernel

# Kernels required on grids of a size to decide it, and their ratio to those of any other size.
_LEAST_GRIDS = 3
_CLEARLY = 3


class CaptureChoice(NamedTuple):
    """The origin of a replayed graph: one of `captures`, which called the same, by `basis`.

    Where there are none, `reason` says why that is not known.
    """

    replayed: ReplayedLaunches
    captures: tuple[CapturedGraph, ...] = ()
    alignment: NodeAlignment | None = None
    basis: str = ""
    reason: str = ""


class _CaptureFit(NamedTuple):
    captures: tuple[CapturedGraph, ...]
    alignment: NodeAlignment

    @property
    def captured(self) -> CapturedGraph:
        return self.captures[0]


def choose_captures(graphs: Sequence[ReplayedLaunches], captures: Sequence[CapturedGraph]) -> list[CaptureChoice]:
    """Choose the capture of each replayed graph."""
    groups: dict[tuple[object, ...], list[CapturedGraph]] = {}
    for captured in captures:
        groups.setdefault((captured.tokens, captured.content), []).append(captured)
    distinct = [tuple(group) for group in groups.values()]
    # Steps of different batches replay one graph: fits are searched once.
    fits: dict[tuple[object, ...], list[_CaptureFit]] = {}
    grids: dict[tuple[int, ...], int | None] = {}
    choices = []
    for replayed in graphs:
        key = (replayed.tokens, replayed.in_order, None if replayed.in_order else replayed.stream.tobytes())
        if key not in fits:
            fits[key] = _find_fits(distinct, replayed)
        choices.append(_choose_capture(replayed, fits[key], captures, grids))
    return choices


def _choose_capture(
    replayed: ReplayedLaunches,
    fits: Sequence[_CaptureFit],
    captures: Sequence[CapturedGraph],
    grids: dict[tuple[int, ...], int | None],
) -> CaptureChoice:
    fits = [fit for fit in fits if any(_can_hold(captured, replayed) for captured in fit.captures)]
    ranks = [(fit.alignment.joined, fit.alignment.same) for fit in fits]
    fits = [fit for fit, rank in zip(fits, ranks, strict=True) if rank == max(ranks)]
    if not fits:
        return CaptureChoice(replayed, reason=_explain_no_fit(replayed, captures))
    choice = _narrow_fits(fits, replayed, captures, grids)
    if isinstance(choice, str):
        return CaptureChoice(replayed, reason=choice)
    same, basis = choice
    return CaptureChoice(
        replayed, tuple(captured for fit in same for captured in fit.captures), same[0].alignment, basis
    )


def _find_fits(distinct: Sequence[tuple[CapturedGraph, ...]], replayed: ReplayedLaunches) -> list[_CaptureFit]:
    """The captures that fit a graph, among those of equal length, else among the others."""
    count = len(replayed.tokens)
    for as_many in (True, False):
        all_fits = []
        for group in distinct:
            first = group[0]
            if (len(first.tokens) == count) == as_many:
                fit = align_nodes(
                    first.tokens, first.content, replayed.tokens, replayed.stream, in_order=replayed.in_order
                )
                all_fits += [] if fit is None else [_CaptureFit(group, fit)]
        if all_fits:
            return all_fits
    return []


def _can_hold(captured: CapturedGraph, replayed: ReplayedLaunches) -> bool:
    return NONE in (captured.size, replayed.size) or captured.size >= replayed.size


def _get_called_content(fit: _CaptureFit) -> tuple[object, ...]:
    content = fit.captured.content
    return tuple(content[node] if node != NONE else None for node in fit.alignment.node.tolist())


def _narrow_fits(
    fits: Sequence[_CaptureFit],
    replayed: ReplayedLaunches,
    captures: Sequence[CapturedGraph],
    grids: dict[tuple[int, ...], int | None],
) -> tuple[list[_CaptureFit], str] | str:
    """Narrow the fits to those that called the same, with the basis; or the reason that the origin is unknown."""
    groups: dict[tuple[object, ...], list[_CaptureFit]] = {}
    for fit in fits:
        groups.setdefault(_get_called_content(fit), []).append(fit)
    kinds = list(groups.values())
    if len(kinds) == 1:
        return kinds[0], _describe_basis(fits[0].alignment)
    asked = tuple(id(fit) for fit in fits)
    if asked not in grids:
        grids[asked] = _pick_by_grids(kinds, replayed)
    number = grids[asked]
    by_grid, by_size = None if number is None else kinds[number], _pick_by_size(kinds, replayed, captures)
    if by_grid is None and by_size is None:
        return (
            f"ambiguous: {len(kinds)} captures of different shapes match, and neither kernel grids nor the "
            "enclosing range's name distinguish them"
        )
    if by_grid is not None and by_size is not None and by_grid is not by_size:
        return (
            f"contradiction: its kernel grids match {by_grid[0].captured.label}, the range around its launch has the "
            f"batch of {by_size[0].captured.label}"
        )
    basis = [what for what, kind in (("kernel grids", by_grid), ("the step's batch", by_size)) if kind is not None]
    return by_grid or by_size or [], " and ".join(basis)


def _describe_basis(alignment: NodeAlignment) -> str:
    if not alignment.by_names:
        return "kernel order and types"
    return "kernel names and grids" if alignment.same else "kernel names"


def _pick_by_grids(kinds: list[list[_CaptureFit]], replayed: ReplayedLaunches) -> int | None:
    """The number of those of whose own dimensions most are grids of kernels; None where that is not clear."""
    counts = [0] * len(kinds)
    for at, token in enumerate(replayed.tokens):
        nodes = [int(kind[0].alignment.node[at]) for kind in kinds]
        if not _has_block_per_row(token) or NONE in nodes:
            continue
        grid = _parse_grid(token)
        dims = [kind[0].captured.dims[node] for kind, node in zip(kinds, nodes, strict=True)]
        shared = frozenset.intersection(*dims)
        for number, its in enumerate(dims):
            counts[number] += bool(grid & (its - shared))
    first, second = sorted(counts, reverse=True)[:2]
    return counts.index(first) if first >= max(_LEAST_GRIDS, _CLEARLY * second) else None


def _has_block_per_row(token: NodeToken) -> bool:
    """True if its grid may be a dimension of its op's inputs: neither elements per block nor GEMM tiles."""
    name = token.kernel
    if token.kind != Category.KERNEL or not token.geometry or "elementwise" in name:
        return False
    return not (is_matrix_kernel(name) or is_collective_kernel(name) or is_compiled_kernel(name))


def _parse_grid(token: NodeToken) -> frozenset[int]:
    grid = token.geometry.partition(b"]")[0]
    sizes = frozenset(map(int, re.findall(rb"\d{1,18}", grid)))
    return sizes - {1} or sizes  # a single block is one of a batch of one


def _pick_by_size(
    kinds: list[list[_CaptureFit]], replayed: ReplayedLaunches, captures: Sequence[CapturedGraph]
) -> list[_CaptureFit] | None:
    """The fits with the smallest captured size that holds the batch; None where none of them has it, or no size is
    known."""
    sizes = [captured.size for captured in captures if captured.size >= replayed.size]
    if replayed.size == NONE or not sizes:
        return None
    least = min(sizes)
    mine = [kind for kind in kinds if any(capture.size == least for fit in kind for capture in fit.captures)]
    return mine[0] if len(mine) == 1 else None


def _explain_no_fit(replayed: ReplayedLaunches, captures: Sequence[CapturedGraph]) -> str:
    count = len(replayed.tokens)
    nearest = min(captures, key=lambda captured: abs(len(captured.tokens) - count))
    if len(nearest.tokens) != count:
        if len(captures) == 1:
            return f"it has {count} nodes, its only capture has {len(nearest.tokens)} ({nearest.label})"
        return (
            f"it has {count} nodes, unlike all {len(captures)} captures; the nearest has "
            f"{len(nearest.tokens)} ({nearest.label})"
        )
    if not replayed.in_order:
        return "it ran on several streams, and node names and numbers do not determine the order in the capture"
    if replayed.size > max(captured.size for captured in captures) > NONE:
        return f"its batch of {replayed.size} is larger than in any capture"
    return f"{nearest.label} has as many nodes, but its kernels differ or are ambiguous"
