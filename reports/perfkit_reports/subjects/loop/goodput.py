"""Goodput of an attached loop: the parts of the run's wall time, and what useful tokens take."""

from collections.abc import Iterator
from typing import NamedTuple

from perfkit.analysis.model.loop import UsefulTokens
from perfkit.analysis.model.suite import Analysis
from perfkit.core import units
from perfkit.core.record.attached_loop import WallTimeParts
from perfkit.store.price import Price
from perfkit_reports.cells import make_quantity_cell, make_seconds_cell
from perfkit_reports.document.blocks import Block, Facts, Group, Section, Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.loop import loop_facts
from perfkit_reports.wording import format_plural

_INTRO = (
    "Each moment of the run is in one part, by the CPU's clock on the first rank. Goodput is the share of training "
    "steps without perfkit's own recording.",
)
_NO_PRICE = "no price; pass it with --price"
_NO_RATE = "the run's steps are unknown"


class _Row(NamedTuple):
    name: str
    seconds: float
    share: float | None
    times: str
    help: str


_COLUMNS: tuple[Column[_Row], ...] = (
    Column("Part", lambda row: Cell(row.name, value=row.name), numeric=False, weight=Weight.BRIEF),
    Column("Time", lambda row: make_seconds_cell(row.seconds), weight=Weight.BRIEF),
    Column(
        "Share",
        lambda row: Cell(NOTHING) if row.share is None else Cell(units.format_percent(row.share), value=row.share),
        meter=True,
        weight=Weight.BRIEF,
    ),
    Column("Times", lambda row: Cell(row.times or NOTHING), numeric=False),
    Column("What it is", lambda row: Cell(row.help), numeric=False, wrap=True),
)


def describe_goodput(wall: WallTimeParts) -> str:
    """`Goodput 62 % of 10.2 s: 20 % compilation, 8 % start-up, 6 % evaluation.`"""
    share = wall.share
    if share is None:
        return ""
    rest = sorted((row for row in _list_rows(wall)[1:] if row.share is not None), key=lambda row: -row.seconds)
    named = [
        f"{units.format_percent(row.share, 0)} {row.name.lower()}" for row in rest if row.share and row.share >= 0.005
    ]
    whole = f"Goodput {units.format_percent(share, 0)} of {units.format_seconds(wall.program_s)}"
    return f"{whole}: {', '.join(named)}." if named else f"{whole}."


def build_sections(analysis: Analysis) -> Iterator[Section]:
    """The parts of the first capture's run, and its useful tokens; nothing while it runs."""
    blocks = []
    for place, (variant, loop) in enumerate(loop_facts.list_loops(analysis)):
        some = []
        if loop.wall_time is not None and loop.wall_time.wall_s:
            some.append(_build_parts(f"goodput-{place}-parts", loop.wall_time))
        if loop.useful is not None:
            some.append(_build_useful(f"goodput-{place}-tokens", loop.useful, analysis.price))
        if some:
            title = variant.name if len(analysis.variants) > 1 else ""
            weight = min(block.weight for block in some)
            blocks.append(Group(id=f"goodput-{place}", title=title, blocks=tuple(some), weight=weight))
    if blocks:
        yield Section("goodput", "Goodput", tuple(blocks), nav="Goodput", intro=_INTRO)


def _build_parts(name: str, wall: WallTimeParts) -> Block:
    rows = [row for row in _list_rows(wall) if row.seconds > 0]
    return Table(id=name, title="Wall time", columns=_COLUMNS, rows=rows, what="part", limit=None, data="")


def _list_rows(wall: WallTimeParts) -> list[_Row]:
    """Training first, then where the rest goes; perfkit's own has no share."""
    whole = wall.program_s

    def make_row(name: str, seconds: float, help: str, times: str = "") -> _Row:
        return _Row(name, seconds, seconds / whole if whole > 0 else None, times, help)

    evaluations, saved = format_plural(wall.evaluations, "evaluation"), format_plural(wall.checkpoints, "file")
    compiled = format_plural(wall.compilations, "compilation")
    return [
        make_row(
            "Training steps", wall.training_s, "up to twice the median step", format_plural(wall.updates, "update")
        ),
        make_row("Start-up", wall.startup_s, "until the first update ended"),
        make_row("Compilation", wall.compilation_s, "torch.compile, first graphs and recompilations", compiled),
        make_row("Data wait", wall.data_s, "DataLoaders, outside of evaluations"),
        make_row("Evaluation", wall.evaluation_s, "from eval() of the trained model to train()", evaluations),
        make_row("Checkpoints", wall.checkpoint_s, "torch.save, safetensors, distributed checkpoints", saved),
        make_row("Other", wall.other_s, "rest of steps above twice the median, and after the last one"),
        _Row(
            "perfkit",
            wall.recording_s,
            None,
            "",
            "pauses for its recordings, and steps that these slowed down; no share",
        ),
    ]


def _build_useful(name: str, tokens: UsefulTokens, price: Price | None) -> Block:
    items = [
        ("Useful tokens per step", Cell(f"{tokens.per_step:,.0f}", value=tokens.per_step)),
        ("Useful tokens per second", _make_rate_cell(tokens.per_second, "no timed steps")),
        ("In the whole run", _make_rate_cell(tokens.run_per_second, _NO_RATE)),
        ("Energy of 1M useful tokens", make_quantity_cell(tokens.energy_per_million)),
        ("Cost of 1M useful tokens", _make_cost_cell(tokens.cost_per_million, price, "no timed steps")),
    ]
    if price is not None:
        items.append(("Cost in the whole run", _make_cost_cell(tokens.run_cost_per_million, price, _NO_RATE)))
    return Facts(id=name, title="Useful tokens", items=tuple(items))


def _make_rate_cell(rate: float | None, reason: str) -> Cell:
    return make_unknown_cell(reason) if rate is None else Cell(f"{rate:,.0f}/s", value=rate)


def _make_cost_cell(cost: float | None, price: Price | None, reason: str) -> Cell:
    if price is None:
        return make_unknown_cell(_NO_PRICE)
    return make_unknown_cell(reason) if cost is None else Cell(price.format_amount(cost), value=cost)
