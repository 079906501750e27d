"""What a machine can tell for which budget, on a terminal and as Markdown."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from perfkit import units
from perfkit.check.judge.quantities import QUANTITIES
from perfkit.check.result import Calibration, DetectableRow, Noise
from perfkit_reports import marks
from perfkit_reports.cells import Cell, plural, unknown
from perfkit_reports.check.markdown_text import escaped
from perfkit_reports.columns import Column, Row
from perfkit_reports.plain import one_line
from perfkit_reports.render.footnotes import Footnotes
from perfkit_reports.screen import fits, table
from perfkit_reports.subjects.check.quantities import signed

_TITLES = {quantity.name: quantity.title for quantity in QUANTITIES}
_TOO_FEW = "a budget for fewer than two pairs tells nothing"
_MEANING = (
    "The smallest change for the worse that a budget tells from none in 95 % of cases, and the smallest threshold "
    "worth setting"
)


def print_calibration(calibration: Calibration, console: Console) -> None:
    """Print what each budget finds, and how much identical sides differ."""
    console.print()
    console.print(Text(headline(calibration), style="bold"))
    console.print(Text(f"\n{_MEANING}:"))
    _table(budgets(calibration), calibration.rows, console)
    console.print(Text(f"How much two sides differ that run the same code, over {_pairs(calibration)}:"))
    _table(noises(calibration), calibration.noise, console)
    for line in remarks(calibration):
        console.print(Text.assemble(("! ", "yellow"), line))


def _table(columns: Sequence[Column[Row]], rows: Sequence[Row], console: Console) -> None:
    """A table; where the terminal is too narrow for it, each row in words."""
    drawn = table(columns, rows)
    if fits(drawn, console):
        console.print(drawn)
        return
    for row in rows:
        named = ((column.title, column.cell(row)) for column in columns)
        words = (f"{title} {cell.text}{f' ({cell.detail})' if cell.detail else ''}" for title, cell in named)
        console.print(Text(f"- {', '.join(words)}"))


def markdown(calibration: Calibration) -> str:
    """The same as Markdown."""
    notes = Footnotes()
    parts = [
        f"## {escaped(headline(calibration))}",
        f"{escaped(_MEANING)}:",
        marks.columns(budgets(calibration), calibration.rows, notes),
        f"How much two sides differ that run the same code, over {escaped(_pairs(calibration))}:",
        marks.columns(noises(calibration), calibration.noise, notes),
        *marks.footnotes(notes),
        "\n".join(f"- {escaped(line)}" for line in remarks(calibration)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def headline(calibration: Calibration) -> str:
    """`In 3 min 0 s this machine finds what is worse by: CPU time a step 0.9 %, step time 2.1 %`."""
    known = [row for row in calibration.rows if any(value is not None for value in row.detectable.values())]
    if not known:
        return "No budget that was asked for gives enough pairs of processes on this machine"
    row = next((each for each in known if each.budget_s >= _DEFAULT_S), known[-1])
    found = ", ".join(
        f"{_title(name)} {units.percent(value)}" for name, value in row.detectable.items() if value is not None
    )
    return f"In {units.seconds(row.budget_s)} this machine finds what is worse by: {found}"


_DEFAULT_S = 180.0  # a check's budget where none is set


def budgets(calibration: Calibration) -> list[Column[DetectableRow]]:
    """The columns of the table of budgets: one for each quantity."""
    return [
        Column("Budget", lambda row: Cell(units.seconds(row.budget_s), value=row.budget_s)),
        Column("Pairs", lambda row: Cell(f"{row.pairs:,}", value=row.pairs)),
        *(_detectable(noise.quantity) for noise in calibration.noise),
    ]


def _detectable(quantity: str) -> Column[DetectableRow]:
    def cell(row: DetectableRow) -> Cell:
        value = row.detectable.get(quantity)
        return unknown(_TOO_FEW) if value is None else Cell(units.percent(value), value=value)

    return Column(_title(quantity), cell)


def noises(calibration: Calibration) -> list[Column[Noise]]:
    """The columns of the table of what identical sides show."""
    of = calibration.comparisons
    return [
        Column("Quantity", lambda noise: Cell(_title(noise.quantity)), numeric=False),
        Column("Spread of a pair", lambda noise: Cell(units.percent(noise.spread), value=noise.spread)),
        Column("Difference", lambda noise: Cell(signed(noise.change), detail=_interval(noise), value=noise.change)),
        Column("False alarms", lambda noise: Cell(f"{noise.false_alarms:,} of {of:,}", value=noise.false_alarms)),
    ]


def remarks(calibration: Calibration) -> list[str]:
    """What to know before relying on it: a side that measuring favours, and the notes."""
    favoured = [
        f"{_title(noise.quantity)}: identical sides differ by {signed(noise.change)} ({_interval(noise)}, 95 % sure): "
        "measuring favours one of them here"
        for noise in calibration.noise
        if noise.low > 0 or noise.high < 0
    ]
    return [*favoured, *map(one_line, calibration.notes)]


def _pairs(calibration: Calibration) -> str:
    pairs = plural(calibration.pairs, "pair")
    return f"{pairs} of processes ({one_line(calibration.turns)}), of {units.seconds(calibration.pair_s)} each"


def _interval(noise: Noise) -> str:
    return f"{signed(noise.low).removesuffix(' %')} to {signed(noise.high)}"


def _title(quantity: str) -> str:
    return _TITLES.get(quantity, one_line(quantity))
