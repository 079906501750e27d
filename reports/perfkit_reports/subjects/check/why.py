"""Tables and bars of why the sides of a check differ."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfkit import units
from perfkit.analysis.model.trace import ChangeRow
from perfkit.check.result import ClaimChange, CountChange, MemoryChange, SetupChange, Why
from perfkit_reports.cells import Cell
from perfkit_reports.columns import NOTHING, Column, Row, count, text
from perfkit_reports.palette import Fill, category_fills
from perfkit_reports.plain import one_line
from perfkit_reports.trace_columns import CHANGES, change_s
from perfkit_reports.trace_story import signed_seconds

MOST_ROWS = 40

# What the evidence of a change of an op is worth, in words.
_EVIDENCE = {
    "new": "it was not called before",
    "gone": "it is not called any more",
    "more calls": "counted exactly",
    "fewer calls": "counted exactly",
    "other inputs": "it is called as often, with other shapes or dtypes",
    "slower": "in every traced step, beyond what other ops vary by",
    "faster": "in every traced step, beyond what other ops vary by",
    "noise": "no more than equal work varies by in these traces",
}


@dataclass(frozen=True)
class Meter(Column[Row]):
    """A column with a bar in proportion to `most`, which several columns share."""

    most: float = 1.0
    meter: bool = True

    def largest(self, rows: Sequence[Row]) -> float:
        return self.most


@dataclass(frozen=True)
class CategoryBar:
    """Bytes of a category at both peaks, and their shares of the widest bar."""

    change: MemoryChange
    fill: Fill
    before: float
    after: float

    @property
    def words(self) -> str:
        was, now = units.nbytes(self.change.before), units.nbytes(self.change.after)
        return f"{was} → {now}" if was != now else now

    @property
    def grown(self) -> str:
        return signed_bytes(self.change.after - self.change.before) if self.change.after != self.change.before else ""


def op_columns(rows: Sequence[ChangeRow]) -> list[Column[ChangeRow]]:
    """What an op took before and after, bars of both on one scale, and what the change rests on."""
    most = max((value or 0.0 for row in rows for value in (row.before_s, row.after_s)), default=0.0) or 1.0
    own = {column.title: column for column in CHANGES}
    return [
        own["Op"],
        Column("Evidence", _evidence, numeric=False),
        own["Change"],
        Meter("Before", lambda row: _seconds(row.before_s), most=most, help="per step, median over the traced steps"),
        Meter("After", lambda row: _seconds(row.after_s), most=most, help="per step, median over the traced steps"),
        Column("Calls", _calls, help="per step, before → after"),
        replace(own["Module"], wrap=True),
        own["Phase"],
        replace(own["Shapes"], wrap=True),
    ]


def ops(why: Why) -> tuple[ChangeRow, ...]:
    """The rows to show: the first ones, which are the surest and largest."""
    return () if why.time is None else why.time.changes[:MOST_ROWS]


def category_bars(why: Why) -> list[CategoryBar]:
    most = max((max(each.before, each.after) for each in why.memory), default=0) or 1
    fills = category_fills([each.category for each in why.memory])
    return [
        CategoryBar(each, fills[each.category], each.before / most, each.after / most)
        for each in sorted(why.memory, key=lambda each: -max(each.before, each.after))
        if each.before or each.after
    ]


def signed_bytes(value: int) -> str:
    return f"{'+' if value > 0 else '-' if value < 0 else ''}{units.nbytes(abs(value))}"


def _seconds(value: float | None) -> Cell:
    return Cell(NOTHING, value=0.0) if value is None else Cell(units.seconds(value), value=value)


def _evidence(row: ChangeRow) -> Cell:
    if not row.evidence:
        return Cell(NOTHING)
    worse = "bad" if change_s(row) > 0 else "good"
    tone = "" if row.evidence == "noise" else worse
    return Cell(row.evidence, reason=_EVIDENCE.get(row.evidence, ""), value=row.evidence, tone=tone)


def _calls(row: ChangeRow) -> Cell:
    was, now = row.before_calls or 0.0, row.after_calls or 0.0
    return Cell(count(now) if was == now else f"{count(was)} → {count(now)}", value=now)


def _grown(row: MemoryChange) -> Cell:
    change = row.after - row.before
    return Cell(signed_bytes(change), value=change, tone="bad" if change > 0 else "good")


MAKERS: tuple[Column[MemoryChange], ...] = (
    Column("Made by", lambda row: Cell(one_line(row.op) or "not known", value=row.op), numeric=False, code=True),
    Column("Module", lambda row: text(one_line(row.module)), numeric=False, wrap=True),
    Column("Category", lambda row: text(one_line(row.category)), numeric=False),
    Column("Change", _grown),
    Column("Before", lambda row: Cell(units.nbytes(row.before), value=row.before)),
    Column("After", lambda row: Cell(units.nbytes(row.after), value=row.after)),
)
COMPILED: tuple[Column[CountChange], ...] = (
    Column("What", lambda row: text(row.kind), numeric=False),
    Column("Before", lambda row: Cell(f"{row.before:,}", value=row.before)),
    Column("After", lambda row: Cell(f"{row.after:,}", value=row.after)),
    Column("Why", lambda row: text(one_line(row.what)), numeric=False, wrap=True),
)
SETUP: tuple[Column[SetupChange], ...] = (
    Column("Set-up", lambda row: text(one_line(row.name)), numeric=False),
    Column("Before", lambda row: _seconds(row.before_s)),
    Column("After", lambda row: _seconds(row.after_s)),
    Column(
        "Change",
        lambda row: (
            Cell(NOTHING)
            if row.before_s is None or row.after_s is None
            else Cell(signed_seconds(row.after_s - row.before_s), value=row.after_s - row.before_s)
        ),
    ),
)


def _holds(held: bool | None) -> str:
    return "not decided" if held is None else "holds" if held else "does not hold"


CLAIMS: tuple[Column[ClaimChange], ...] = (
    Column("Technique", lambda row: text(one_line(row.technique)), numeric=False),
    Column("Claim", lambda row: text(one_line(row.statement)), numeric=False, wrap=True),
    Column("Before", lambda row: text(_holds(row.before)), numeric=False),
    Column("After", lambda row: text(_holds(row.after)), numeric=False),
    Column("Evidence", lambda row: text(one_line(row.evidence)), numeric=False, wrap=True),
)
