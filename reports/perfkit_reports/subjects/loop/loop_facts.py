"""Facts on the recording of an attached loop."""

from perfkit.analysis.model.loop import CountPerStep, LoopAnalysis, LoopRank, Slowdown, TokenUse
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core import units
from perfkit_reports.cells import format_factor, make_optional_cell
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.subjects.suite.suite_cells import NO_LOADER, make_waiting_cell
from perfkit_reports.wording import format_plural

_NOT_WATCHED = "steps after recording are excluded"
_INSTRUMENTS = {"trace": "During tracing", "memory": "During memory recording"}


def list_loops(analysis: Analysis) -> list[tuple[Variant, LoopAnalysis]]:
    """Variants that are attached loops."""
    return [(variant, variant.loop) for variant in analysis.variants if variant.loop is not None]


def list_facts(loop: LoopAnalysis) -> list[tuple[str, Cell]]:
    """(name, value) of each known fact of the loop and its recording."""
    items = [
        ("Step boundary", Cell(loop.step_marker)),
        ("Steps", Cell(describe_steps(loop), detail="" if loop.live_log else _NOT_WATCHED)),
        ("Per step", _make_step_cell(loop)),
        ("Optimizers", _make_names_cell(loop.optimizers, "none seen")),
        ("Models", _make_names_cell(loop.models, "none found")),
        ("Data wait share", make_waiting_cell(loop)),
    ]
    if loop.units_source and loop.steps_timed:
        items.append((f"{loop.unit.capitalize() or 'Samples'} per step", _make_units_cell(loop)))
    if loop.tokens is not None:
        items.append(("Tokens per step", _make_tokens_cell(loop.tokens)))
    if loop.excluded_steps_s:
        longest = units.format_seconds(max(loop.excluded_steps_s))
        excluded = f"{format_plural(len(loop.excluded_steps_s), 'step')} with evaluation, up to {longest}"
        items.append(("Excluded from step time", Cell(excluded)))
    items += [
        (_INSTRUMENTS.get(each.instrument, each.instrument), Cell(describe_slowdown(each))) for each in loop.slowdowns
    ]
    if loop.trigger:
        items.append(("Triggered by", Cell(loop.trigger)))
    return items


def describe_steps(loop: LoopAnalysis) -> str:
    """`60 timed, from step 11; 71 observed`."""
    if not loop.steps_timed:
        return f"none timed, {loop.steps_seen:,} observed"
    return f"{loop.steps_timed:,} timed, from step {loop.first_timed:,}; {loop.steps_seen:,} observed"


def describe_slowdown(slowdown: Slowdown) -> str:
    """Profiler slowdown, which no figure is corrected for."""
    basis = f", median of {slowdown.steps:,}" if slowdown.steps > 1 else ""
    took = f"{units.format_seconds(slowdown.seconds)}{basis}"
    if slowdown.ratio >= 1:
        text = f"{format_factor(slowdown.ratio)} the time of a timed step ({took})"
    else:  # recording cannot speed a program up
        timed = units.format_seconds(slowdown.seconds / slowdown.ratio)
        text = f"{took}, less than a timed step ({timed}): step lengths vary"
    if slowdown.pause_s is not None:
        text += f"; the loop paused for {units.format_seconds(slowdown.pause_s)}"
    if slowdown.peak_bytes is not None:
        text += f", process peak memory rose by {units.format_bytes(slowdown.peak_bytes)}"
    return text


def _make_units_cell(loop: LoopAnalysis) -> Cell:
    """`16`, all ranks combined, and its source."""
    if not loop.units_per_step:
        return make_unknown_cell(loop.units_source.removeprefix("not known: ").removeprefix("unknown: "))
    ranks = f", {format_plural(len(loop.ranks), 'rank')} combined" if len(loop.ranks) > 1 else ""
    return Cell(f"{loop.units_per_step:,.10g}{ranks}", detail=loop.units_source, value=loop.units_per_step)


def _make_tokens_cell(tokens: TokenUse) -> Cell:
    """`8,192, 62.0 % padding, 21.0 % labeled, 20.0 % useful`."""
    parts = [f"{tokens.computed:,.0f}"]
    if tokens.padding_share is not None:
        parts.append(f"{units.format_percent(tokens.padding_share)} padding")
    if tokens.labeled is not None:
        parts.append(f"{units.format_percent(tokens.labeled / tokens.computed)} labeled")
    if tokens.useful is not None and tokens.labeled is not None:
        parts.append(f"{units.format_percent(tokens.useful / tokens.computed)} useful")
    return Cell(", ".join(parts), detail="positions in the batches of DataLoaders", value=tokens.computed)


def _make_step_cell(loop: LoopAnalysis) -> Cell:
    counted = [
        _format_count(each, one, many)
        for each, one, many in (
            (loop.forwards, "forward pass", "forward passes"),
            (loop.backwards, "backward pass", "backward passes"),
            (loop.optimizer_steps, "optimizer step", "optimizer steps"),
        )
        if each is not None
    ]
    if loop.forwards is not None and loop.forwards.max == 0:
        counted[0] = "no forward passes seen: no module was called"
    return (
        Cell(", ".join(counted), detail=_describe_accumulation(loop))
        if counted
        else make_unknown_cell("no timed steps")
    )


def _format_count(count: CountPerStep, one: str, many: str) -> str:
    if count.min != count.max:
        return f"{count.min:,} to {count.max:,} {many}"
    return format_plural(count.max, one, many)


def _describe_accumulation(loop: LoopAnalysis) -> str:
    batches = loop.microbatches
    if batches is None or batches == 1:
        return ""
    number = f"{batches:,.0f}" if batches == int(batches) else f"{batches:.1f} (mean)"
    return f"{number} microbatches accumulated"


def _make_names_cell(names: tuple[str, ...], reason: str) -> Cell:
    return Cell("; ".join(names)) if names else make_unknown_cell(reason)


RANKS: tuple[Column[LoopRank], ...] = (
    Column("Rank", lambda rank: Cell(str(rank.rank), value=rank.rank)),
    Column("Step time", lambda rank: make_optional_cell(rank.step_s, units.format_seconds, "no timed steps")),
    Column("Data wait", lambda rank: make_optional_cell(rank.data_wait_s, units.format_seconds, NO_LOADER)),
    Column("Data wait share", lambda rank: make_optional_cell(rank.data_wait_share, units.format_percent, NO_LOADER)),
)
