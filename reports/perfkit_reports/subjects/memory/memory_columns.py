"""Columns of memory tables: largest blocks, bytes by module and op, growth."""

from collections.abc import Callable
from functools import partial

from perfkit.analysis.model.memory_model import MemoryGrowth, MemoryRow, MemoryShare
from perfkit.core import units
from perfkit_reports.cells import format_count, make_bytes_cell, make_calls_cell, make_share_cell, make_text_cell
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder
from perfkit_reports.names import shorten_modules
from perfkit_reports.subjects.memory.balance import format_balance, format_beyond, format_device
from perfkit_reports.subjects.memory.rows import EqualBlocks, ModuleRow


def _make_module_cell(name: str) -> Cell:
    short = shorten_modules(name)
    return Cell(short or NOTHING, value=name, whole=name if short != name else "")


def _make_tensor_cell(shape: str, dtype: str) -> Cell:
    return make_text_cell(f"{shape} {dtype}".strip())


def _make_blocks_cell(row: EqualBlocks) -> Cell:
    """`16 x 48.0 MiB`; a single block is its size."""
    text = f"{row.count:,} x {units.format_bytes(row.block.bytes)}" if row.count > 1 else "1"
    return Cell(text, value=row.count)


_LAST_HOLDER = "op that released the last reference"
LARGEST: tuple[Column[EqualBlocks], ...] = (
    Column(
        "Allocation",
        lambda row: _make_module_cell(row.block.name),
        numeric=False,
        code=True,
        help="tensor, or the op that allocated it",
    ),
    Column("Size", lambda row: make_bytes_cell(row.bytes), meter=True, help="of all blocks of the row"),
    Column("Blocks", _make_blocks_cell, help="allocations that differ only in the number of their layer"),
    Column("Category", lambda row: make_text_cell(row.block.category), numeric=False),
    Column("Tensor", lambda row: _make_tensor_cell(row.block.shape, row.block.dtype), numeric=False, wrap=True),
    Column(
        "Source line",
        lambda row: make_text_cell(row.block.line),
        numeric=False,
        wrap=True,
        help="where it was allocated",
    ),
    Column("Freed by", lambda row: make_text_cell(row.block.freed_by), numeric=False, wrap=True, help=_LAST_HOLDER),
    Column("Module", lambda row: _make_module_cell(row.block.module), numeric=False, weight=Weight.DETAIL),
    Column("Allocated by", lambda row: make_text_cell(row.block.op), numeric=False, weight=Weight.DETAIL),
    Column("Phase", lambda row: make_text_cell(row.block.phase), numeric=False, weight=Weight.DETAIL),
)


def build_op_columns(peak: int, *, with_modules: bool) -> list[Column[MemoryRow]]:
    """Columns of bytes by module and op, with their share of `peak`; the op names a row where no module is known."""
    size = Column[MemoryRow]("Size", lambda row: make_bytes_cell(row.bytes), meter=True)
    op = Column[MemoryRow]("Allocated by", lambda row: make_text_cell(row.op), numeric=False, code=not with_modules)
    module = Column[MemoryRow]("Module", lambda row: _make_module_cell(row.module), numeric=False, code=True)
    return [
        *((module, size, op) if with_modules else (op, size)),
        Column("Category", lambda row: make_text_cell(row.category), numeric=False),
        Column("Share", lambda row: _make_share_cell(row.bytes, peak), help="of the peak"),
        Column("Blocks", lambda row: make_calls_cell(row.blocks)),
    ]


def build_module_columns(peak: int) -> list[Column[ModuleRow]]:
    """Columns of bytes by module; repeated blocks share a row."""
    return [
        Column(
            "Module",
            lambda row: _make_module_cell(row.module),
            numeric=False,
            code=True,
            help="block numbers shown as *",
        ),
        Column("Size", lambda row: make_bytes_cell(row.bytes), meter=True),
        Column("Category", lambda row: make_text_cell(row.category), numeric=False),
        Column("Share", lambda row: _make_share_cell(row.bytes, peak), help="of the peak"),
        Column(
            "Modules",
            lambda row: _make_modules_cell(row, row.modules, format_count),
            help="number of modules in this row",
        ),
        Column(
            "Each",
            lambda row: _make_modules_cell(row, row.bytes / row.modules, units.format_bytes),
            help="mean size per module",
        ),
        Column("Blocks", lambda row: make_calls_cell(row.blocks)),
    ]


def _make_maker_cell(row: MemoryGrowth) -> Cell:
    return Cell(row.module or row.op or NOTHING, detail=row.op if row.module else "")


GROWTH: tuple[Column[MemoryGrowth], ...] = (
    Column("Source line", lambda row: make_text_cell(row.line), numeric=False, code=True),
    Column("Growth", lambda row: make_bytes_cell(row.bytes_per_step), help="bytes per step"),
    Column("Blocks", lambda row: make_calls_cell(row.blocks_per_step), help="per step"),
    Column("Steps", lambda row: make_calls_cell(row.steps), help="consecutive"),
    Column("Category", lambda row: make_text_cell(row.category), numeric=False),
    Column("Allocated by", _make_maker_cell, numeric=False),
    Column("Tensor", lambda row: _make_tensor_cell(row.shape, row.dtype), numeric=False),
)


def _make_modules_cell(row: ModuleRow, value: float, show: Callable[[float], str]) -> Cell:
    """A count of modules; a dash for a row outside all modules."""
    return Cell(show(value), value=value) if row.module else Cell(NOTHING)


def _make_share_cell(amount: int, peak: int) -> Cell:
    return make_share_cell(amount / peak) if peak else Cell(NOTHING)


def build_owner_column(what: str) -> Column[tuple[Holder, MemoryShare]]:
    """The holder's name."""
    return Column(what.capitalize(), lambda row: Cell(row[0].name), numeric=False)


CATEGORIES: tuple[Column[tuple[Holder, MemoryShare]], ...] = (
    Column("Category", lambda row: Cell(row[1].category), numeric=False, weight=Weight.BRIEF),
    Column("Size", lambda row: make_bytes_cell(row[1].bytes), meter=True, weight=Weight.BRIEF),
    Column("Share", lambda row: _make_share_cell(row[1].bytes, row[0].account.peak_bytes), help="of the peak"),
)


def build_balance_columns(what: str) -> list[Column[Holder]]:
    """Balance columns for several holders."""
    line = partial(Column[Holder], numeric=False, wrap=True)
    return [
        Column(what.capitalize(), _make_holder_cell, numeric=False),
        line("Balance", lambda holder: make_text_cell(format_balance(holder.account)), weight=Weight.BRIEF),
        line("Process memory", lambda holder: make_text_cell(format_beyond(holder.account))),
        line("Device memory", lambda holder: make_text_cell(format_device(holder.account))),
        line("Source", lambda holder: make_text_cell(holder.account.source)),
    ]


def _make_holder_cell(holder: Holder) -> Cell:
    return Cell(holder.name, swatch=(holder.style.color, holder.style.symbol) if holder.style else None)


def build_reserved_columns(total: int) -> list[Column[tuple[str, str, int]]]:
    """Columns of the parts of reserved memory, which sum to `total`."""
    return [
        Column("Part", lambda part: Cell(part[1]), numeric=False),
        Column("Size", lambda part: make_bytes_cell(part[2]), meter=True),
        Column("Share", lambda part: _make_share_cell(part[2], total), help="of reserved memory"),
    ]
