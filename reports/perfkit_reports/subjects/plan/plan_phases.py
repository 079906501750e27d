"""What a rank does beside training steps: a row per phase, and a remark where one needs more than the step."""

from collections.abc import Iterator

from perfkit.analysis.model.plan import Plan, PlannedPhase, PlannedVariant
from perfkit.core import units
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.plan import plan_cells

LABELS = {
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
    asked = any(phase.phase == "evaluation" for _, phase in rows)
    if rows:
        yield Table(
            id="phases",
            title="Evaluation and checkpoints",
            columns=_COLUMNS if plan.limit_bytes is not None else [each for each in _COLUMNS if each.title != "Fits"],
            rows=rows,
            what="phase",
            data="phases",
            caption="Peaks of one rank beside those of training steps; a full checkpoint's are of rank 0.",
            weight=Weight.BRIEF if asked else Weight.NORMAL,
        )


def list_larger_phases(plan: Plan) -> Iterator[str]:
    """A sentence for each phase that needs more than the training step does, if it may not fit."""
    for variant, phase in list_phases(plan):
        step = variant.needed_bytes
        if phase.needed is None or step is None or phase.needed.high <= step.high or phase.fit in ("fits", "unknown"):
            continue
        needed = units.format_bytes(phase.needed.value)
        yield f"{variant.name}: {LABELS[phase.phase]} {phase.fit}, needs {needed}."


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
    Column("Main memory", _make_host_cell, help="in a GPU's host, beside what the process has", weight=Weight.BRIEF),
    Column("Time", _make_time_cell, weight=Weight.BRIEF),
    Column("Cause of the peak", lambda row: Cell(row[1].cause or NOTHING), numeric=False, wrap=True),
]
