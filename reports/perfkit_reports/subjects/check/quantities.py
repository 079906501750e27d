"""What a table says about one judged quantity: one function a column, shared by every renderer of a check."""

from perfkit import units
from perfkit.amounts import amount, precise_amount
from perfkit.check.result import Judged, Verdict
from perfkit_reports.cells import Cell, relative, unknown
from perfkit_reports.columns import NOTHING, Column
from perfkit_reports.plain import one_line

SYMBOLS = {
    Verdict.PASS: "✓",
    Verdict.FAIL: "✗",
    Verdict.IMPROVED: "▲",
    Verdict.INCONCLUSIVE: "?",
    Verdict.NOT_COMPARED: "–",
}
TONES = {Verdict.PASS: "good", Verdict.IMPROVED: "good", Verdict.FAIL: "bad"}
_EQUAL = "exactly"
_SAME = "same"


def title(judged: Judged) -> Cell:
    return Cell(one_line(judged.title))


def before(judged: Judged) -> Cell:
    return _side(judged, judged.before)


def after(judged: Judged) -> Cell:
    return _side(judged, judged.after)


def change(judged: Judged) -> Cell:
    """The relative change with its interval, the absolute one where there is none; a dash where one side has none."""
    if judged.exact and judged.before is not None and judged.before == judged.after:
        return Cell(_SAME, value=0.0)
    if judged.change is not None:
        return Cell(signed(judged.change), detail=interval(judged), value=judged.change)
    if judged.before is None or judged.after is None:
        return Cell(NOTHING)
    difference = judged.after - judged.before
    return Cell(f"{'+' if difference > 0 else ''}{amount(difference, judged.unit)}", value=difference)


def brief(judged: Judged) -> str:
    """`step time +7.8 % (+6.5 to +9.3 %)`; without a change why there is none."""
    if not has_change(judged):
        return f"{one_line(judged.title)}: {one_line(judged.reason)}"
    found = change(judged)
    return f"{one_line(judged.title)} {found.text}{f' ({found.detail})' if found.detail else ''}"


def has_change(judged: Judged) -> bool:
    """There are figures of both sides to tell a change from."""
    return change(judged).text != NOTHING


def interval(judged: Judged) -> str:
    """`+6.5 to +9.3 %`; of what is counted `exactly`; empty where there is none."""
    if judged.low is None or judged.high is None:
        return _EQUAL if judged.exact else ""
    return f"{signed(judged.low).removesuffix(' %')} to {signed(judged.high)}"


def threshold(judged: Judged) -> Cell:
    return Cell(one_line(judged.threshold.text) if judged.threshold else NOTHING)


def verdict(judged: Judged) -> Cell:
    return Cell(said(judged.verdict), reason=judged.reason, tone=TONES.get(judged.verdict, "unsure"))


def said(known: Verdict) -> str:
    """`✗ fail`: the symbol says it where no colour is shown."""
    return f"{SYMBOLS[known]} {known.value}"


def signed(value: float) -> str:
    """A relative change: `+7.8 %`; one that would read as 0 with as many digits as it takes."""
    if value == 0 or abs(value) >= 0.0005:
        return units.signed_percent(value)
    return f"{'+' if value > 0 else ''}{relative(value * 100)} %"


def _side(judged: Judged, value: float | None) -> Cell:
    if value is None:  # a distance between the sides has no value before
        return unknown(judged.reason) if judged.verdict is Verdict.NOT_COMPARED else Cell(NOTHING)
    show = precise_amount if _alike(judged) else amount
    return Cell(show(value, judged.unit), value=value)


def _alike(judged: Judged) -> bool:
    """The two sides differ, and would read as if they did not."""
    first, second = judged.before, judged.after
    if first is None or second is None or first == second or not judged.exact:
        return False
    return amount(first, judged.unit) == amount(second, judged.unit)


COLUMNS: tuple[Column[Judged], ...] = (
    Column("Quantity", title, numeric=False),
    Column("Before", before),
    Column("After", after),
    Column("Change", change),
    Column("Threshold", threshold),
    Column("Verdict", verdict, numeric=False),
)
