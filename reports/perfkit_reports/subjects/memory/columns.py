"""The columns of tables of memory: the largest blocks, bytes by module and op, what grows."""

from collections.abc import Callable
from functools import partial

from perfkit import units
from perfkit.analysis.model.memory import LiveBlock, MemoryGrowth, MemoryRow, MemoryShare
from perfkit_reports.cells import calls, count, share, size, text
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder
from perfkit_reports.names import inner_modules
from perfkit_reports.subjects.memory.balance import balance_line, beyond_line, device_line
from perfkit_reports.subjects.memory.rows import ModuleRow


def _inner(name: str) -> Cell:
    shown = inner_modules(name)
    return Cell(shown or NOTHING, value=name, whole=name if shown != name else "")


def _tensor(shape: str, dtype: str) -> Cell:
    return text(f"{shape} {dtype}".strip())


_LAST_HOLDER = "the op it was freed in: its last holder"
LARGEST: tuple[Column[LiveBlock], ...] = (
    Column("What", lambda block: _inner(block.name), numeric=False, code=True, help="tensor, or what it was made by"),
    Column("Size", lambda block: size(block.bytes), meter=True),
    Column("Category", lambda block: text(block.category), numeric=False),
    Column("Tensor", lambda block: _tensor(block.shape, block.dtype), numeric=False, wrap=True),
    Column("Source line", lambda block: text(block.line), numeric=False, wrap=True, help="where it was asked for"),
    Column("Kept by", lambda block: text(block.kept_by), numeric=False, wrap=True, help=_LAST_HOLDER),
    Column("Module", lambda block: _inner(block.module), numeric=False, weight=Weight.DETAIL),
    Column("Made by", lambda block: text(block.op), numeric=False, weight=Weight.DETAIL),
    Column("Phase", lambda block: text(block.phase), numeric=False, weight=Weight.DETAIL),
)


def by_op(peak: int) -> list[Column[MemoryRow]]:
    """Columns of bytes by module and op, with their share of `peak`."""
    return [
        Column("Module", lambda row: _inner(row.module), numeric=False, code=True),
        Column("Size", lambda row: size(row.bytes), meter=True),
        Column("Made by", lambda row: text(row.op), numeric=False),
        Column("Category", lambda row: text(row.category), numeric=False),
        Column("Share", lambda row: _share(row.bytes, peak), help="of the peak"),
        Column("Blocks", lambda row: calls(row.blocks)),
    ]


def by_module(peak: int) -> list[Column[ModuleRow]]:
    """Columns of bytes by module, those of repeated blocks together."""
    return [
        Column("Module", lambda row: _inner(row.module), numeric=False, code=True, help="numbers of blocks as *"),
        Column("Size", lambda row: size(row.bytes), meter=True),
        Column("Category", lambda row: text(row.category), numeric=False),
        Column("Share", lambda row: _share(row.bytes, peak), help="of the peak"),
        Column("Modules", lambda row: _modules(row, row.modules, count), help="how many are one row"),
        Column("Each", lambda row: _modules(row, row.bytes / row.modules, units.nbytes), help="mean size a module"),
        Column("Blocks", lambda row: calls(row.blocks)),
    ]


def _maker(row: MemoryGrowth) -> Cell:
    return Cell(row.module or row.op or NOTHING, detail=row.op if row.module else "")


GROWTH: tuple[Column[MemoryGrowth], ...] = (
    Column("Source line", lambda row: text(row.line), numeric=False, code=True),
    Column("Grows by", lambda row: size(row.bytes_per_step), help="bytes a step"),
    Column("Blocks", lambda row: calls(row.blocks_per_step), help="a step"),
    Column("Steps", lambda row: calls(row.steps), help="in a row"),
    Column("Category", lambda row: text(row.category), numeric=False),
    Column("Made by", _maker, numeric=False),
    Column("Tensor", lambda row: _tensor(row.shape, row.dtype), numeric=False),
)


def _modules(row: ModuleRow, value: float, show: Callable[[float], str]) -> Cell:
    """Of a row outside of all modules there is nothing to tell."""
    return Cell(show(value), value=value) if row.module else Cell(NOTHING)


def _share(amount: int, peak: int) -> Cell:
    return share(amount / peak) if peak else Cell(NOTHING)


def owner(what: str) -> Column[tuple[Holder, MemoryShare]]:
    """Whose memory it is."""
    return Column(what.capitalize(), lambda row: Cell(row[0].name), numeric=False)


CATEGORIES: tuple[Column[tuple[Holder, MemoryShare]], ...] = (
    Column("Category", lambda row: Cell(row[1].category), numeric=False, weight=Weight.BRIEF),
    Column("Size", lambda row: size(row[1].bytes), meter=True, weight=Weight.BRIEF),
    Column("Share", lambda row: _share(row[1].bytes, row[0].account.peak_bytes), help="of the peak"),
)


def balance(what: str) -> list[Column[Holder]]:
    """Columns of the balance of several holders."""
    line = partial(Column[Holder], numeric=False, wrap=True)
    return [
        Column(what.capitalize(), _holder, numeric=False),
        line("Balance", lambda holder: text(balance_line(holder.account)), weight=Weight.BRIEF),
        line("The process", lambda holder: text(beyond_line(holder.account))),
        line("The device", lambda holder: text(device_line(holder.account))),
        line("Source", lambda holder: text(holder.account.source)),
    ]


def _holder(holder: Holder) -> Cell:
    return Cell(holder.name, swatch=(holder.style.colour, holder.style.symbol) if holder.style else None)


def reserved(total: int) -> list[Column[tuple[str, str, int]]]:
    """Columns of the parts of what is reserved, which sum to `total`."""
    return [
        Column("Part", lambda part: Cell(part[1]), numeric=False),
        Column("Size", lambda part: size(part[2]), meter=True),
        Column("Share", lambda part: _share(part[2], total), help="of what is reserved"),
    ]
