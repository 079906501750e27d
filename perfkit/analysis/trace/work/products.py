"""The rows of matrix products and of fused attention by the sizes of their calls."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.products import AttentionRow, GemmRow
from perfkit.analysis.trace.attention_call import attention_of, backend
from perfkit.analysis.trace.op_class import OpClass, op_class
from perfkit.analysis.trace.product import sizes
from perfkit.analysis.trace.quantization import Grid, split_k, tile_count, tile_loss, waves
from perfkit.analysis.trace.roofs import Roofs
from perfkit.analysis.trace.work.engine import Engine
from perfkit.analysis.trace.work.grouping import Groups, group
from perfkit.analysis.trace.work.pieces import Kind, Pieces
from perfkit.analysis.trace.work.placed import Placed, place, rows
from perfkit.analysis.trace.work.table import Row, Table, table_of
from perfkit.cost.gemm_kernel import only_helps
from perfkit.cost.gemm_tile import grid_counts_threads, takes_whole_tiles, tile_of
from perfkit.trace.costing import CostedCall
from perfkit.trace.read import NONE, Ints

# Programs have some hundred at most; those with sizes that change from step to step have many.
MOST_ROWS = 2000

_PRODUCTS = (OpClass.MATMUL, OpClass.ATTENTION)
_OF_OP_ROW = (
    "phase", "shapes", "dtype", "unit", "calls", "seconds", "share", "flops", "bytes", "achieved", "bound", "level",
    "attainable_s", "efficiency", "above_roof", "no_share",
)  # fmt: skip
_TRIPLE = re.compile(rb"\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]")


def product_rows(engine: Engine, roofs: Roofs, units: int | None) -> tuple[Table[GemmRow], Table[AttentionRow]]:
    """What has the most to save first; `units` are the device's multiprocessors."""
    work = engine.pieces
    nothing = np.full(len(work), NONE, np.int8)
    wanted = np.asarray([*(op_class(call.call.name) in _PRODUCTS for call in work.ops.calls), False])
    chosen = wanted[work.call] & engine.within & work.is_kind(Kind.WORK)
    if not chosen.any():
        return Table((), nothing), Table((), nothing)
    main = _main_pieces(work, engine.costs.flops)
    geometry = work.ops.trace.geometry[work.event[main]]
    groups = group(
        np.where(chosen, work.call, NONE),
        np.where(chosen, work.name[main], NONE),
        np.where(chosen, geometry, NONE),
        np.where(chosen, work.phase, NONE),
    )
    placed = place(work, engine.costs, groups, roofs, by_op=True)
    order = placed.rank_groups()
    order = order[chosen[placed.first[order]]][:MOST_ROWS]
    gemms: list[tuple[GemmRow, Ints]] = []
    attentions: list[tuple[AttentionRow, Ints]] = []
    for index in order.tolist():
        of = _group(placed, index, main, engine.step_s, units)
        if only_helps(of.kernel):  # the one that multiplies is not in the trace
            continue
        its = np.asarray([index])
        if op_class(of.call.call.name) == OpClass.MATMUL:
            gemms += [(row, its) for row in (_gemm(of),) if row is not None]
        else:
            attentions += [(row, its) for row in (_attention(of),) if row is not None]
    return _table(gemms, groups), _table(attentions, groups)


def _table(rows_and_groups: list[tuple[Row, Ints]], groups: Groups) -> Table[Row]:
    return table_of(tuple(row for row, _ in rows_and_groups), [its for _, its in rows_and_groups], groups)


def _main_pieces(work: Pieces, flops: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each piece that of its op which does most of the arithmetic; itself where its op is not known."""
    own = np.arange(len(work))
    owner = np.where(work.owner == NONE, -2 - own, work.owner.astype(np.int64))
    order = np.lexsort((-work.busy_ns, -np.nan_to_num(flops), owner))
    _, first, of = np.unique(owner[order], return_index=True, return_inverse=True)
    main = np.empty(len(work), np.int64)
    main[order] = order[first[of]]
    return main


@dataclass(frozen=True)
class _Group:
    """Equal calls: `common` are the fields that all rows have, what fills the device apart."""

    call: CostedCall
    kernel: str
    grid: Grid | None
    units: int | None
    layout: str
    common: Mapping[str, Any]


def _group(placed: Placed, index: int, main: NDArray[np.int64], step_s: float, units: int | None) -> _Group:
    pieces, first = placed.pieces, int(placed.first[index])
    trace, piece = pieces.ops.trace, int(main[first])
    call = pieces.ops.calls[int(pieces.call[first])]
    kernel = trace.names[int(pieces.name[piece])] if pieces.on_device else ""
    geometry = int(trace.geometry[pieces.event[piece]])
    grid = None if geometry == NONE else _grid(trace.geometries[geometry], kernel)
    (row,) = rows(placed, np.asarray([index]), step_s, of_kernels=False)
    common = {name: getattr(row, name) for name in _OF_OP_ROW}
    return _Group(call, kernel, grid, units, row.layout, {**common, "name": call.call.name, "kernel": kernel})


def _grid(geometry: bytes, kernel: str) -> Grid | None:
    """The blocks of a grid, from the JSON of grid and block; None where one of them is not three sizes, or is empty."""
    triples = [tuple(map(int, found)) for found in _TRIPLE.findall(geometry)]
    if not triples or not all(triples[0]):
        return None
    x, y, z = triples[0]
    if not grid_counts_threads(kernel):
        return x, y, z
    if len(triples) < 2 or not all(triples[1]):
        return None
    a, b, c = triples[1]
    return None if x % a or y % b or z % c else (x // a, y // b, z // c)


def _filled(of: _Group, tiles: int | None = None, parts: int | None = None) -> dict[str, Any]:
    if of.grid is None:
        return {"units": of.units}
    blocks = prod(of.grid)
    whole = takes_whole_tiles(of.kernel)
    filled = None if of.units is None else waves(blocks, of.units, tiles, parts, whole_tiles=whole)
    told = {"blocks": blocks, "units": of.units}
    return told if filled is None else {**told, "waves": filled.number, "wave_loss": filled.loss}


def _gemm(of: _Group) -> GemmRow | None:
    product = sizes(*of.call.call)
    if product is None:
        return None
    tile = tile_of(of.kernel)
    tiles = None if tile is None else tile_count(product, tile)
    parts = split_k(of.grid, product.batch, tiles) if of.grid and tiles and prod(of.grid) >= tiles else None
    return GemmRow(
        **of.common,
        layout=of.layout,
        **_filled(of, tiles, parts),
        **product._asdict(),
        tile="" if tile is None else str(tile),
        tiles=tiles,
        tile_loss=None if tile is None else tile_loss(product, tile),
        split_k=parts,
    )


def _attention(of: _Group) -> AttentionRow | None:
    call = of.call.call
    attention = attention_of(call.name, call.args)
    if attention is None:
        return None
    return AttentionRow(
        **of.common,
        **_filled(of),
        **attention._asdict(),
        masked=of.call.cost.unmasked_flops is not None,
        backend=backend(call.name, of.kernel),
    )
