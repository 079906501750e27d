"""What a machine can tell for which budget, as a document."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from perfkit import __version__, units
from perfkit.check.judge.quantities import QUANTITIES
from perfkit.check.result import CheckCalibration, DetectableRow, Noise
from perfkit_reports.cells import between, known, seconds, share, signed, whole
from perfkit_reports.document.blocks import Section
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import Column, Data, plain
from perfkit_reports.document.weight import Weight
from perfkit_reports.plain import one_line
from perfkit_reports.subjects.tables import table
from perfkit_reports.wording import plural

CALIBRATION_FILE = "calibration.json"
_DEFAULT_S = 180.0  # a check's budget where none is set
_TITLES = {quantity.name: quantity.title for quantity in QUANTITIES}
_TOO_FEW = "a budget for fewer than two pairs tells nothing"
_BUDGETS = {"budget_s": float, "pairs": int, "quantity": str, "detectable": float}


def document(calibration: CheckCalibration) -> Document:
    """What each budget finds, and how much identical sides differ."""
    shown = {"limit": None, "weight": Weight.BRIEF}
    budgets = table("budgets", "What each budget finds", _budgets(calibration), calibration.rows, "budget", **shown)
    differ = "How much identical sides differ"
    noise = table("noise", differ, _noises(calibration), calibration.noise, "quantity", **shown)
    return Document(
        kind="calibration",
        title="Calibration of checks",
        headline=headline(calibration),
        perfkit=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        lead=(
            "A budget finds the smallest change for the worse that it tells from none in 95 % of cases: the smallest "
            "threshold worth setting.",
            f"Measured with {_pairs(calibration)} that run the same code.",
        ),
        sections=(Section("calibration", "Calibration", (*budgets, *noise)),),
        warnings=tuple(_remarks(calibration)),
        data=(
            Data("budgets", _BUDGETS, lambda: list(_budget_rows(calibration))),
            plain("noise", Noise, calibration.noise),
        ),
        raw={CALIBRATION_FILE: calibration},
        saves=CALIBRATION_FILE,
    )


def headline(calibration: CheckCalibration) -> str:
    """`In 3 min 0 s this machine finds what is worse by: CPU time a step 0.9 %, step time 2.1 %`."""
    rows = [row for row in calibration.rows if any(value is not None for value in row.detectable.values())]
    if not rows:
        return "No budget that was asked for gives enough pairs of processes on this machine"
    row = next((row for row in rows if row.budget_s >= _DEFAULT_S), rows[-1])
    detectable = ", ".join(
        f"{_title(name)} {units.percent(value)}" for name, value in row.detectable.items() if value is not None
    )
    return f"In {units.seconds(row.budget_s)} this machine finds what is worse by: {detectable}"


def _budgets(calibration: CheckCalibration) -> list[Column[DetectableRow]]:
    """A column for each quantity."""
    brief = partial(Column[DetectableRow], weight=Weight.BRIEF)
    return [
        brief("Budget", lambda row: seconds(row.budget_s)),
        brief("Pairs", lambda row: whole(row.pairs)),
        *(brief(_title(noise.quantity), partial(_detectable, noise.quantity)) for noise in calibration.noise),
    ]


def _detectable(quantity: str, row: DetectableRow) -> Cell:
    value = row.detectable.get(quantity)
    return known(value, units.percent, _TOO_FEW)


def _noises(calibration: CheckCalibration) -> list[Column[Noise]]:
    brief = partial(Column[Noise], weight=Weight.BRIEF)
    of = calibration.comparisons
    return [
        brief("Quantity", lambda noise: Cell(_title(noise.quantity)), numeric=False),
        brief("Spread of a pair", lambda noise: share(noise.spread)),
        brief(
            "Difference",
            lambda noise: Cell(signed(noise.change), detail=between(noise.low, noise.high), value=noise.change),
        ),
        brief("False alarms", lambda noise: Cell(f"{noise.false_alarms:,} of {of:,}", value=noise.false_alarms)),
    ]


def _remarks(calibration: CheckCalibration) -> list[str]:
    """What to know before relying on it: a side that measuring favours, and the notes."""
    favoured = [
        f"{_title(noise.quantity)}: identical sides differ by {signed(noise.change)} "
        f"({between(noise.low, noise.high)}, 95 % sure): measuring favours one of them here"
        for noise in calibration.noise
        if noise.low > 0 or noise.high < 0
    ]
    return [*favoured, *map(one_line, calibration.notes)]


def _pairs(calibration: CheckCalibration) -> str:
    pairs = plural(calibration.pairs, "pair")
    return f"{pairs} of processes ({one_line(calibration.turns)}), of {units.seconds(calibration.pair_s)} each,"


def _title(quantity: str) -> str:
    return _TITLES.get(quantity, one_line(quantity))


def _budget_rows(calibration: CheckCalibration) -> Iterator[dict[str, Any]]:
    for row in calibration.rows:
        for quantity, detectable in row.detectable.items():
            yield {"budget_s": row.budget_s, "pairs": row.pairs, "quantity": quantity, "detectable": detectable}
