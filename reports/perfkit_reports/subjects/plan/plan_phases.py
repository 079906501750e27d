"""Phases of a rank's work: a row each, and a sentence for the one that decides whether a variant fits."""

from collections.abc import Iterator

from perfkit.analysis.model.plan import Plan, PlannedPhase, PlannedVariant
from perfkit.core import units
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.plan import plan_cells

STEP = "step"

LABELS = {
    "first_step": "first step",
    "step": "later steps",
    "evaluation": "evaluation step",
    "evaluation_kept": "evaluation with kept logits",
    "checkpoint_full": "full checkpoint",
    "checkpoint_sharded": "sharded checkpoint",
}
_TONES = {"fits": "good", "may fit": "unsure", "does not fit": "bad"}

Row = tuple[PlannedVariant, PlannedPhase]


def list_phases(plan: Plan) -> list[Row]:
    """All phases, each with its variant."""
    return [(variant, phase) for variant in plan.variants for phase in variant.phases]


def build_phases_table(plan: Plan) -> Iterator[Table]:
    """Peak memory and time of each phase; none without any."""
    rows = list_phases(plan)
    asked = any(phase.phase == "evaluation" or _decides_beside_steps(variant) for variant, phase in rows)
    if rows:
        yield Table(
            id="phases",
            title="Memory by phase",
            columns=_COLUMNS if plan.limit_bytes is not None else [each for each in _COLUMNS if each.title != "Fits"],
            rows=rows,
            what="phase",
            data="phases",
            caption="Peaks of one rank; a full checkpoint's are of rank 0. The first step makes the optimizer state.",
            emphasis=lambda row: row[1].phase == row[0].deciding_phase,
            weight=Weight.BRIEF if asked else Weight.NORMAL,
        )


def list_deciding_phases(plan: Plan) -> Iterator[str]:
    """Which phase needs most, where it is another than the training steps, how much, and why; variants of one phase and
    cause together."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for variant in plan.variants:
        phase = find_deciding_phase(variant)
        if phase is not None and _decides_beside_steps(variant):
            groups.setdefault((phase.phase, phase.cause), []).append((variant, phase))
    for (name, cause), rows in groups.items():
        names = ", ".join(variant.name for variant, _ in rows)
        yield f"{names}: {LABELS[name]} needs most, {_describe_need(rows)}; {cause}."


def _describe_need(rows: list[Row]) -> str:
    """`239 MiB, 1.14 to 2.43 times a training step`, of phases of known need."""
    needs = [phase.needed.value for _, phase in rows if phase.needed is not None]
    ratios = [
        phase.needed.value / variant.needed_bytes.value
        for variant, phase in rows
        if phase.needed is not None and variant.needed_bytes is not None and variant.needed_bytes.value
    ]
    text = _format_span(units.format_bytes(min(needs)), units.format_bytes(max(needs)))
    if not ratios:
        return text
    low, high = (units.format_significant(bound) for bound in (min(ratios), max(ratios)))
    return f"{text}, {_format_span(low, high)} times a training step"


def _format_span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def find_deciding_phase(variant: PlannedVariant) -> PlannedPhase | None:
    """The phase that needs most; None if unknown."""
    return next((phase for phase in variant.phases if phase.phase == variant.deciding_phase), None)


def describe_misfit(variant: PlannedVariant) -> str:
    """`evaluation step does not fit: needs 60 GiB`, where the training step fits better than the deciding phase;
    else ""."""
    phase = find_deciding_phase(variant)
    if phase is None or phase.needed is None or phase.fit == variant.fit or phase.fit in ("fits", "unknown"):
        return ""
    return f"{LABELS[phase.phase]} {phase.fit}: needs {units.format_bytes(phase.needed.value)}"


def _decides_beside_steps(variant: PlannedVariant) -> bool:
    return variant.deciding_phase not in ("", STEP)


def _make_needed_cell(row: Row) -> Cell:
    _, phase = row
    if phase.needed is None:
        return make_unknown_cell(phase.reason)
    detail = plan_cells.format_size_span(phase.needed)
    return Cell(units.format_bytes(phase.needed.value), detail=detail, value=phase.needed.value)


def _make_host_cell(row: Row) -> Cell:
    _, phase = row
    return Cell(units.format_bytes(phase.host_bytes), value=phase.host_bytes) if phase.host_bytes else Cell(NOTHING)


def _make_fits_cell(row: Row) -> Cell:
    _, phase = row
    if phase.needed is None:
        return make_unknown_cell(phase.reason)
    return Cell(phase.fit, id=phase.fit, tone=_TONES.get(phase.fit, ""))


def _make_time_cell(row: Row) -> Cell:
    _, phase = row
    if phase.seconds is None:
        return make_unknown_cell(phase.reason or phase.time_reason)
    return Cell(
        units.format_seconds(phase.seconds.value),
        detail=plan_cells.format_time_span(phase.seconds),
        value=phase.seconds.value,
    )


_COLUMNS: list[Column[Row]] = [
    Column("Variant", lambda row: Cell(row[0].name), numeric=False, weight=Weight.BRIEF),
    Column("Phase", lambda row: Cell(LABELS[row[1].phase], id=row[1].phase), numeric=False, weight=Weight.BRIEF),
    Column("Needed", _make_needed_cell, weight=Weight.BRIEF),
    Column("Fits", _make_fits_cell, numeric=False, pill=True, weight=Weight.BRIEF),
    Column(
        "Main memory", _make_host_cell, help="beside what torch's allocator of the device provides", weight=Weight.BRIEF
    ),
    Column("Time", _make_time_cell, weight=Weight.BRIEF),
    Column("Cause of the peak", lambda row: Cell(row[1].cause or NOTHING), numeric=False, wrap=True),
]
