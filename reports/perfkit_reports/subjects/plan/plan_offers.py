"""Tables of a plan for GPUs: every offer with its speed and cost, and what to do next."""

from collections.abc import Callable, Iterator

from perfkit.analysis.model.plan import GpuOffer, Plan
from perfkit.core import units
from perfkit.store.price import format_cost_unit
from perfkit_reports.cells import make_integer_cell, make_optional_cell
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.plan import plan_answer, plan_cells
from perfkit_reports.subjects.plan.plan_answer import NextStep

_TONES = {True: ("fits", "good"), False: ("does not fit", "bad"), None: ("may fit", "unsure")}
_NO_PRICE = "no price given: --price NAME=AMOUNT/h"


def build_offers_table(plan: Plan) -> Iterator[Table]:
    """Every GPU, number of GPUs and variant, the best first; none where there is nothing to compare."""
    if len({(offer.device, offer.count) for offer in plan.offers}) > 1:
        yield Table(
            id="offers",
            title="GPUs",
            columns=_build_columns(plan),
            rows=plan.offers,
            what="offer",
            data="offers",
            limit=40,
            caption="Those that fit come first, by cost where every price is given, else by speed.",
            weight=Weight.BRIEF,
        )


def build_next_steps(plan: Plan) -> Iterator[Table]:
    """Commands that follow from the answer; none without known memory needs."""
    steps = plan_answer.list_next_steps(plan)
    if steps:
        yield Table(
            id="next-steps",
            title="What to do",
            whole=True,
            columns=_NEXT,
            rows=steps,
            what="step",
            data="offers",
            weight=Weight.BRIEF,
        )


def find_offer(plan: Plan, name: str, world_size: int) -> GpuOffer | None:
    """The offer of a planned variant on the plan's own GPU."""
    return next((offer for offer in plan.offers if plan_answer.is_offered(plan, offer, name, world_size)), None)


def make_speed_cell(offer: GpuOffer | None) -> Cell:
    """Tokens or samples per second of all GPUs."""
    speed = None if offer is None else offer.units_per_s
    return make_optional_cell(speed, units.format_significant, "no predicted time")


def make_mfu_cell(offer: GpuOffer | None) -> Cell:
    """Model FLOP/s over the GPUs' peak."""
    share = None if offer is None else offer.mfu
    return make_optional_cell(share, lambda value: units.format_percent(value, 0), "no time, peak or FLOPs known")


def make_cost_cell(offer: GpuOffer | None) -> Cell:
    """The cost of a million tokens or a thousand samples."""
    if offer is None or offer.cost is None or offer.price is None:
        return make_unknown_cell(_NO_PRICE if offer is None or offer.price is None else "no predicted time")
    return Cell(offer.price.format_amount(offer.cost), value=offer.cost)


def _make_fits_cell(offer: GpuOffer) -> Cell:
    if offer.needed is None:
        return make_unknown_cell(offer.reason)
    text, tone = _TONES[offer.fits]
    return Cell(text, id=text, tone=tone)


def _make_needed_cell(offer: GpuOffer) -> Cell:
    if offer.needed is None:
        return make_unknown_cell(offer.reason)
    detail = f"{plan_cells.format_size_span(offer.needed) or 'exact'} of {units.format_bytes(offer.limit_bytes)}"
    return Cell(units.format_bytes(offer.needed.value), detail=detail, value=offer.needed.value)


def _make_step_cell(offer: GpuOffer) -> Cell:
    if offer.step_s is None:
        return make_unknown_cell(offer.reason or "no predicted time")
    return Cell(
        units.format_seconds(offer.step_s.value),
        detail=plan_cells.format_time_span(offer.step_s),
        value=offer.step_s.value,
    )


def _make_run_cell(plan: Plan) -> Callable[[GpuOffer], Cell]:
    def make(offer: GpuOffer) -> Cell:
        seconds = plan_answer.compute_run_s(plan, offer)
        if seconds is None:
            return make_unknown_cell("no predicted time")
        cost = plan_answer.format_run_cost(plan, offer)
        return Cell(plan_answer.format_run_s(seconds), detail=cost, value=seconds)

    return make


def _build_columns(plan: Plan) -> list[Column[GpuOffer]]:
    unit = plan.offers[0].unit or "units"
    columns = [
        Column[GpuOffer](
            "GPUs", lambda offer: Cell(f"{offer.count} x {offer.device}"), numeric=False, weight=Weight.BRIEF
        ),
        Column[GpuOffer]("Variant", lambda offer: Cell(offer.variant), numeric=False, weight=Weight.BRIEF),
        Column[GpuOffer]("Fits", _make_fits_cell, numeric=False, pill=True, weight=Weight.BRIEF),
        Column[GpuOffer]("Needed", _make_needed_cell, weight=Weight.BRIEF),
        Column[GpuOffer]("Step time", _make_step_cell),
        Column[GpuOffer](f"{unit.capitalize()}/s", make_speed_cell, weight=Weight.BRIEF),
        Column[GpuOffer]("MFU", make_mfu_cell, weight=Weight.BRIEF),
        Column[GpuOffer]("Count", lambda offer: make_integer_cell(offer.count), weight=Weight.DETAIL),
    ]
    if any(offer.price is not None for offer in plan.offers):
        columns.append(Column(f"Cost per {format_cost_unit(unit)}", make_cost_cell, weight=Weight.BRIEF))
    if plan.run_units is not None:
        columns.append(Column("Run", _make_run_cell(plan), weight=Weight.BRIEF))
    return columns


_NEXT: tuple[Column[NextStep], ...] = (
    Column("Goal", lambda step: Cell(step.goal), numeric=False, weight=Weight.BRIEF),
    Column("Choice", lambda step: Cell(step.choice), numeric=False, weight=Weight.BRIEF),
    Column("Command", lambda step: Cell(step.command), numeric=False, wrap=True, code=True, weight=Weight.BRIEF),
)
