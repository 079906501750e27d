"""The report on a check calibration: the change that each budget detects on this machine."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from perfkit import __version__
from perfkit.check.judge.quantities import QUANTITIES
from perfkit.check.judge.result import CheckCalibration, DetectableRow, Noise
from perfkit.core import units
from perfkit.core.note import Note, make_note
from perfkit_reports.cells import (
    format_bounds,
    format_change,
    make_integer_cell,
    make_optional_cell,
    make_seconds_cell,
    make_share_cell,
)
from perfkit_reports.document.blocks import Section
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import Column, RawTable, build_plain_data
from perfkit_reports.document.weight import Weight
from perfkit_reports.notes import map_texts
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.wording import format_plural

CALIBRATION_FILE = "calibration.json"
_DEFAULT_S = 180.0  # a check's default budget
_TITLES = {quantity.name: quantity.title for quantity in QUANTITIES}
_TOO_FEW = "a budget needs at least two pairs"
_BUDGETS = {"budget_s": float, "pairs": int, "quantity": str, "detectable": float}


def build_document(calibration: CheckCalibration) -> Document:
    """Detectable change by budget, and noise between identical sides."""
    options = {"limit": None, "weight": Weight.BRIEF}
    budgets = make_table(
        "budgets",
        "Detectable change by budget",
        _build_budget_columns(calibration),
        calibration.rows,
        "budget",
        **options,
    )
    differ = "A/A difference (identical code)"
    noise = make_table("noise", differ, _build_noise_columns(calibration), calibration.noise, "quantity", **options)
    return Document(
        kind="calibration",
        title="Check calibration",
        headline=build_headline(calibration),
        perfkit=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        lead=(
            (
                "Detectable change: the smallest regression that a budget finds in 95 % of cases, and the "
                "smallest useful threshold."
            ),
            f"Measured with {_describe_pairs(calibration)}, both sides running the same code.",
        ),
        sections=(Section("calibration", "Calibration", (*budgets, *noise)),),
        warnings=tuple(_list_remarks(calibration)),
        data=(
            RawTable("budgets", _BUDGETS, lambda: list(_list_budget_rows(calibration))),
            build_plain_data("noise", Noise, calibration.noise),
        ),
        raw={CALIBRATION_FILE: calibration},
        saves=CALIBRATION_FILE,
    )


def build_headline(calibration: CheckCalibration) -> str:
    """`In 3 min 0 s, this machine detects regressions of 0.9 % in CPU time per step, 2.1 % in step time`."""
    rows = [row for row in calibration.rows if any(value is not None for value in row.detectable.values())]
    if not rows:
        return "No budget allows enough pairs of processes on this machine"
    row = next((row for row in rows if row.budget_s >= _DEFAULT_S), rows[-1])
    detectable = ", ".join(
        f"{units.format_percent(value)} in {_get_title(name)}"
        for name, value in row.detectable.items()
        if value is not None
    )
    return f"In {units.format_seconds(row.budget_s)}, this machine detects regressions of {detectable}"


def _build_budget_columns(calibration: CheckCalibration) -> list[Column[DetectableRow]]:
    """A column for each quantity."""
    brief = partial(Column[DetectableRow], weight=Weight.BRIEF)
    return [
        brief("Budget", lambda row: make_seconds_cell(row.budget_s)),
        brief("Pairs", lambda row: make_integer_cell(row.pairs)),
        *(
            brief(_get_title(noise.quantity), partial(_make_detectable_cell, noise.quantity))
            for noise in calibration.noise
        ),
    ]


def _make_detectable_cell(quantity: str, row: DetectableRow) -> Cell:
    value = row.detectable.get(quantity)
    return make_optional_cell(value, units.format_percent, _TOO_FEW)


def _build_noise_columns(calibration: CheckCalibration) -> list[Column[Noise]]:
    brief = partial(Column[Noise], weight=Weight.BRIEF)
    comparisons = calibration.comparisons
    return [
        brief("Quantity", lambda noise: Cell(_get_title(noise.quantity)), numeric=False),
        brief("Pair spread", lambda noise: make_share_cell(noise.spread)),
        brief(
            "Difference",
            lambda noise: Cell(
                format_change(noise.change), detail=format_bounds(noise.low, noise.high), value=noise.change
            ),
        ),
        brief(
            "False alarms", lambda noise: Cell(f"{noise.false_alarms:,} of {comparisons:,}", value=noise.false_alarms)
        ),
    ]


def _list_remarks(calibration: CheckCalibration) -> list[Note]:
    """Measurement bias towards a side, and the notes."""
    biased = [
        make_note(
            "check.biased",
            f"{_get_title(noise.quantity)}: identical sides differ by {format_change(noise.change)} ("
            f"{format_bounds(noise.low, noise.high)}, 95 % confidence): the measurement is biased here",
            quantity=noise.quantity,
            change=noise.change,
        )
        for noise in calibration.noise
        if noise.low > 0 or noise.high < 0
    ]
    return [*biased, *map_texts(flatten_text, calibration.notes)]


def _describe_pairs(calibration: CheckCalibration) -> str:
    pairs = format_plural(calibration.pairs, "process pair")
    return f"{pairs} ({flatten_text(calibration.turns)}, {units.format_seconds(calibration.pair_s)} each)"


def _get_title(quantity: str) -> str:
    return _TITLES.get(quantity, flatten_text(quantity))


def _list_budget_rows(calibration: CheckCalibration) -> Iterator[dict[str, Any]]:
    for row in calibration.rows:
        for quantity, detectable in row.detectable.items():
            yield {"budget_s": row.budget_s, "pairs": row.pairs, "quantity": quantity, "detectable": detectable}
