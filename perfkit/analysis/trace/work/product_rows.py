"""The rows of matrix products and of fused attention by the sizes of their calls."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.matmul_rows import AttentionRow, GemmRow
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.roofline.attention_call import identify_backend, parse_attention
from perfkit.analysis.trace.roofline.matmul_operands import parse_matmul_sizes
from perfkit.analysis.trace.roofline.quantization import (
    Grid,
    compute_tile_loss,
    compute_waves,
    count_tiles,
    infer_split_k,
)
from perfkit.analysis.trace.time.grouping import RowGroups, group_rows
from perfkit.analysis.trace.work.roofline_groups import RooflineGroups, place_groups
from perfkit.analysis.trace.work.roofline_rows import build_op_rows
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.analysis.trace.work.work_table import Row, WorkTable, build_table
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.kernels.gemm_kernel import is_helper_kernel
from perfkit.cost.kernels.gemm_tile import has_grid_of_threads, has_whole_tiles, parse_tile
from perfkit.cost.op_class import classify_op
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.cost_ops import SPARSE_OPERANDS, CostedCall

# Programs have some hundred at most; those with sizes that change from step to step have many.
MOST_ROWS = 2000

_PRODUCTS = (OpClass.MATMUL, OpClass.ATTENTION)
_OF_OP_ROW = (
    "phase", "shapes", "dtype", "unit", "calls", "seconds", "share", "flops", "bytes", "flops_per_s", "bound", "level",
    "attainable_s", "efficiency", "above_roof", "efficiency_reason", "device",
)  # fmt: skip
_TRIPLE = re.compile(rb"\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]")


def build_product_rows(
    engine: WorkAnalysis, units: Sequence[int | None]
) -> tuple[WorkTable[GemmRow], WorkTable[AttentionRow]]:
    """Build the rows, largest savings first; `units` are the multiprocessors of each device."""
    work = engine.pieces
    nothing = np.full(len(work), NONE, np.int8)
    wanted = np.asarray([*(_is_product(call) for call in work.ops.calls), False])
    chosen = wanted[work.call] & engine.within & work.is_kind(WorkKind.WORK)
    if not chosen.any():
        return WorkTable((), nothing), WorkTable((), nothing)
    main = _find_main_items(work, engine.costs.flops)
    geometry = work.ops.trace.geometry[work.event[main]]
    groups = group_rows(
        np.where(chosen, work.call, NONE),
        np.where(chosen, work.name[main], NONE),
        np.where(chosen, geometry, NONE),
        np.where(chosen, work.phase, NONE),
        work.has_unknown_time.astype(np.int8),
        np.where(chosen, engine.roofs.find_kinds(work.device), NONE),
    )
    placed = place_groups(work, engine.costs, groups, engine.roofs, by_op=True)
    order = placed.rank_groups()
    order = order[chosen[placed.first[order]]][:MOST_ROWS]
    gemms: list[tuple[GemmRow, Ints]] = []
    attentions: list[tuple[AttentionRow, Ints]] = []
    rows = build_op_rows(placed, order, engine.step_s, of_kernels=False)
    for index, row in zip(order.tolist(), rows, strict=True):
        of = _make_call_group(placed, index, main, row, units[int(work.device[placed.first[index]])])
        if is_helper_kernel(of.kernel):  # the one that multiplies is not in the trace
            continue
        its = np.asarray([index])
        if classify_op(of.call.call.name) == OpClass.MATMUL:
            gemms += [(gemm, its) for gemm in (_build_gemm_row(of),) if gemm is not None]
        else:
            attentions += [(attention, its) for attention in (_build_attention_row(of),) if attention is not None]
    return _build_table(gemms, groups), _build_table(attentions, groups)


def _is_product(call: CostedCall) -> bool:
    return call.cost.source != SPARSE_OPERANDS and classify_op(call.call.name) in _PRODUCTS


def _build_table(rows_and_groups: list[tuple[Row, Ints]], groups: RowGroups) -> WorkTable[Row]:
    return build_table(tuple(row for row, _ in rows_and_groups), [its for _, its in rows_and_groups], groups)


def _find_main_items(work: WorkItems, flops: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each piece, that of its op with most of the arithmetic; itself where the op is unknown."""
    own = np.arange(len(work))
    owner = np.where(work.owner == NONE, -2 - own, work.owner.astype(np.int64))
    order = np.lexsort((-work.busy_ns, -np.nan_to_num(flops), owner))
    _, first, of = np.unique(owner[order], return_index=True, return_inverse=True)
    main = np.empty(len(work), np.int64)
    main[order] = order[first[of]]
    return main


@dataclass(frozen=True)
class _CallGroup:
    """Equal calls: `common` holds the fields of all rows; what fills the device is separate."""

    call: CostedCall
    kernel: str
    grid: Grid | None
    units: int | None
    layout: str
    common: Mapping[str, Any]


def _make_call_group(
    placed: RooflineGroups, index: int, main: NDArray[np.int64], row: OpRow, units: int | None
) -> _CallGroup:
    pieces, first = placed.pieces, int(placed.first[index])
    trace, piece = pieces.ops.trace, int(main[first])
    call = pieces.ops.calls[int(pieces.call[first])]
    kernel = trace.names[int(pieces.name[piece])] if pieces.on_device else ""
    geometry = int(trace.geometry[pieces.event[piece]])
    grid = None if geometry == NONE else _parse_grid(trace.geometries[geometry], kernel)
    common = {name: getattr(row, name) for name in _OF_OP_ROW}
    return _CallGroup(call, kernel, grid, units, row.layout, {**common, "name": call.call.name, "kernel": kernel})


def _parse_grid(geometry: bytes, kernel: str) -> Grid | None:
    """The blocks of a grid, from the JSON of grid and block; None where one of them is not three sizes, or is empty."""
    triples = [tuple(map(int, triple)) for triple in _TRIPLE.findall(geometry)]
    if not triples or not all(triples[0]):
        return None
    x, y, z = triples[0]
    if not has_grid_of_threads(kernel):
        return x, y, z
    if len(triples) < 2 or not all(triples[1]):
        return None
    a, b, c = triples[1]
    return None if x % a or y % b or z % c else (x // a, y // b, z // c)


def _measure_fill(of: _CallGroup, tiles: int | None = None, parts: int | None = None) -> dict[str, Any]:
    if of.grid is None:
        return {"units": of.units}
    blocks = prod(of.grid)
    whole = has_whole_tiles(of.kernel)
    filled = None if of.units is None else compute_waves(blocks, of.units, tiles, parts, whole_tiles=whole)
    fields = {"blocks": blocks, "units": of.units}
    return fields if filled is None else {**fields, "waves": filled.number, "wave_loss": filled.loss}


def _build_gemm_row(of: _CallGroup) -> GemmRow | None:
    product = parse_matmul_sizes(*of.call.call)
    if product is None:
        return None
    tile = parse_tile(of.kernel)
    tiles = None if tile is None else count_tiles(product, tile)
    parts = infer_split_k(of.grid, product.batch, tiles) if of.grid and tiles and prod(of.grid) >= tiles else None
    return GemmRow(
        **of.common,
        layout=of.layout,
        **_measure_fill(of, tiles, parts),
        **product._asdict(),
        tile="" if tile is None else str(tile),
        tiles=tiles,
        tile_loss=None if tile is None else compute_tile_loss(product, tile),
        split_k=parts,
    )


def _build_attention_row(of: _CallGroup) -> AttentionRow | None:
    call = of.call.call
    attention = parse_attention(call.name, call.args)
    if attention is None:
        return None
    return AttentionRow(
        **of.common,
        **_measure_fill(of),
        **attention._asdict(),
        is_masked=of.call.cost.unmasked_flops is not None,
        backend=identify_backend(call.name, of.kernel),
    )
