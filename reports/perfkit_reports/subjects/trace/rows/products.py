"""GEMMs and fused attention by shape: their share of the roof, and their losses."""

from dataclasses import replace
from typing import Any, TypeVar

from perfkit.analysis.model.matmul_rows import AttentionRow, GemmRow, ProductRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.core import units
from perfkit.devices.accelerator import is_cpu
from perfkit_reports.cells import make_calls_cell, make_code_cell, make_optional_cell, make_text_cell
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column, drop_empty_columns
from perfkit_reports.selection import make_key, make_product_key
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.subjects.trace.rows.call_sites import CallSites, make_line_cell
from perfkit_reports.subjects.trace.rows.costs import FIGURES, SAVINGS, hide_columns

Row = TypeVar("Row", contravariant=True)

_UNCOSTED = "cost unknown"
_NO_GRID = "no grid recorded for its kernel"
_NO_UNITS = "number of multiprocessors unknown"
_PERSISTENT = "possibly a persistent kernel: a few blocks share all tiles"
_NO_TILE = "tile or its orientation not in the kernel name"


def _make_loss_cell(value: float | None, reason: str) -> Cell:
    return make_optional_cell(value, lambda loss: units.format_percent(loss, 0), reason)


def _explain_no_waves(row: ProductRow) -> str:
    if row.blocks is None:
        return _NO_GRID
    return _NO_UNITS if row.units is None else _PERSISTENT


def _make_op_cell(row: ProductRow) -> Cell:
    name = make_code_cell(row.name.removeprefix("aten::"), 32)
    return replace(name, text=f"{name.text}, {row.phase}") if row.phase else name


def _make_waves_cell(row: ProductRow) -> Cell:
    return (
        make_optional_cell(row.waves, lambda waves: f"{waves:.1f}", _explain_no_waves(row))
        if row.kernel
        else Cell(NOTHING)
    )


def _make_wave_loss_cell(row: ProductRow) -> Cell:
    return _make_loss_cell(row.wave_loss, _explain_no_waves(row)) if row.kernel else Cell(NOTHING)


_TIME, _SHARE, _SAVED, _ROOF, _BOUND = FIGURES
_TIME = replace(_TIME, meter=True)
_OP = Column[ProductRow]("Op", lambda row: _make_op_cell(row), numeric=False, help="op and phase", wrap=True)
_DEVICE = Column[ProductRow]("Device", lambda row: make_text_cell(row.device), numeric=False, wrap=True)
_KERNEL = Column[ProductRow]("Kernel", lambda row: make_code_cell(row.kernel, 32), numeric=False, wrap=True)
_DTYPE = Column[ProductRow]("Dtype", lambda row: make_text_cell(row.dtype), numeric=False, help="compute dtype")
_WAVES = Column[ProductRow]("Waves", _make_waves_cell, help="blocks / SMs, with one resident block per SM")
_WAVE_LOSS = Column[ProductRow](
    "Wave loss",
    _make_wave_loss_cell,
    help="wave quantization: multiprocessor time lost in the last wave, a lower bound",
)
_BEHIND: tuple[Column[ProductRow], ...] = (
    Column("Calls", lambda row: make_calls_cell(row.calls), help="per step"),
    Column(
        "FLOP/s",
        lambda row: make_optional_cell(row.flops_per_s, units.format_flop_rate, _UNCOSTED),
        help="achieved",
    ),
    Column("Blocks", lambda row: make_optional_cell(row.blocks, lambda count: f"{count:,}", _NO_GRID)),
    _SHARE,
    Column("FLOPs", lambda row: make_optional_cell(row.flops, units.format_flops, _UNCOSTED), help="per step"),
    Column(
        "Roofline time",
        lambda row: make_optional_cell(row.attainable_s, units.format_seconds, "cost or roof unknown"),
        help="time at the roofline, per step",
    ),
)


def _make_size_cell(row: GemmRow) -> Cell:
    batch = f"{row.batch} of " if row.batch > 1 else ""
    return Cell(f"{batch}{row.m}×{row.n}×{row.k}", value=row.batch * row.m * row.n * row.k)


_GEMMS: tuple[Column[GemmRow], ...] = (
    Column("M×N×K", _make_size_cell, numeric=False, help="with its batch size, if any"),
    *(_OP, _TIME, _ROOF, _SAVED, _BOUND, _DTYPE),
    Column("Tile", lambda row: make_text_cell(row.tile), numeric=False, help="M×N×K tile, from the kernel name"),
    _WAVE_LOSS,
    Column(
        "Tile loss",
        lambda row: _make_loss_cell(row.tile_loss, _NO_TILE) if row.kernel else Cell(NOTHING),
        help="tile quantization: share of arithmetic wasted in partial edge tiles",
    ),
    _DEVICE,
    *hide_columns(
        *(_KERNEL, _WAVES),
        Column[GemmRow](
            "Split-K",
            lambda row: Cell(NOTHING) if row.split_k is None else Cell(str(row.split_k), value=row.split_k),
            help="blocks that accumulate one tile",
        ),
        Column[GemmRow](
            "Layout",
            lambda row: make_text_cell(row.layout.replace(",", ", ")),
            numeric=False,
            help="whether A and B are row- or column-major",
        ),
        *_BEHIND,
    ),
)


def _make_positions_cell(row: AttentionRow) -> Cell:
    return Cell(f"{row.queries}×{row.keys}", value=row.queries * row.keys)


def _make_heads_cell(row: AttentionRow) -> Cell:
    shown = str(row.heads) if row.heads == row.key_heads else f"{row.heads} / {row.key_heads}"
    return Cell(shown, value=row.heads)


def _make_mask_cell(row: AttentionRow) -> Cell:
    masks = [word for word, holds in (("causal or window", row.is_masked), ("tensor", row.has_mask_tensor)) if holds]
    return make_text_cell(", ".join(masks))


_ATTENTIONS: tuple[Column[AttentionRow], ...] = (
    Column("Queries × keys", _make_positions_cell, numeric=False, help="positions; packed sequences are summed"),
    *(_TIME, _ROOF, _SAVED, _BOUND),
    Column("Pass", lambda row: Cell("backward" if row.backward else "forward"), numeric=False),
    Column("Library", lambda row: make_text_cell(row.backend), numeric=False, wrap=True),
    Column("Heads", _make_heads_cell, help="of queries / of keys"),
    Column("Head dim", lambda row: Cell(str(row.width), value=row.width)),
    Column(
        "Mask",
        _make_mask_cell,
        numeric=False,
        wrap=True,
        help="FLOPs exclude pairs removed by a causal or window mask",
    ),
    *(_DTYPE, _DEVICE),
    *hide_columns(
        Column[AttentionRow](
            "Batch", lambda row: Cell("packed") if row.batch is None else Cell(str(row.batch), value=row.batch)
        ),
        *(_KERNEL, _OP, _WAVES, _WAVE_LOSS),
        *_BEHIND,
    ),
)


def build_product_tables(trace: RankTrace, sites: CallSites, end: str, limit: int) -> dict[str, tuple[Table, ...]]:
    """Tables of GEMMs and of fused attention by the tab that they are under; an empty tuple without rows."""
    what = "shape" if is_cpu(trace.device) else "shape and kernel"
    whats = what.replace("shape", "shapes").replace("kernel", "kernels")
    ranked: dict[str, Any] = {"whats": whats, "sorted": SAVINGS, "limit": limit, "about": make_product_key}
    line = Column[ProductRow](
        "Source line", lambda row: make_line_cell(sites, _make_launch_key(row)), numeric=False, wrap=True
    )
    gemms = drop_empty_columns((_GEMMS[0], line, *_GEMMS[1:]), trace.gemms)
    attentions = drop_empty_columns((_ATTENTIONS[0], line, *_ATTENTIONS[1:]), trace.attentions)
    return {
        "GEMM": make_table(f"gemms{end}", f"GEMMs of {trace.label}", gemms, trace.gemms, what, **ranked),
        "Attention": make_table(
            f"attentions{end}", f"Fused attention of {trace.label}", attentions, trace.attentions, what, **ranked
        ),
    }


def _make_launch_key(row: ProductRow) -> str:
    return make_key("kernel", row.kernel) if row.kernel else make_key("op", row.name)
