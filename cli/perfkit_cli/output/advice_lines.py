"""Prints advice on a terminal: a table of the first options, their reasons, and the best combination."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from perfkit.analysis.model.plan import Interval
from perfkit.core.note import list_texts
from perfkit.core.units import format_bytes, format_percent, format_seconds, format_signed_percent
from perfkit.plan.advise.advice import Advice, AdviceOption, ExcludedVariant
from perfkit_cli.output.console import make_console
from perfkit_reports.render.safe_text import SafeText

_WIDTH = 80
_EXPLAINED = 3
_NO_CHANGE = 0.005  # of the step or the peak: less is shown as none
_CHANGES_RESULTS = "advice.changes_results"
_BETTER, _WORSE = "green", "yellow"  # besides signs, which say the same


def show_advice(advice: Advice, top: int) -> None:
    """The first `top` options on standard output."""
    screen = make_console()
    screen.width = min(screen.width, _WIDTH)
    shown = advice.options[:top]
    screen.print(SafeText(_format_answer(advice), style="bold"))
    screen.print(SafeText(_describe_step(advice)))
    screen.print(_build_table(shown))
    if len(advice.options) > len(shown):
        screen.print(SafeText(f"{len(advice.options) - len(shown)} more: --top {len(advice.options)}", style="dim"))
    explained: set[tuple[str, ...]] = set()
    for option in shown[:_EXPLAINED]:
        if option.reasons not in explained:
            _explain_option(screen, option, option.name)
        explained.add(option.reasons)
    if advice.fitting is not None:
        _show_combination(screen, "fits, changes results", advice.fitting)
    if advice.best is not None and "+" in advice.best.name:
        too_large = advice.best.fits is False
        _show_combination(screen, "closest, comparable losses" if too_large else "best combination", advice.best)
    others = [note for note in advice.notes if note.id != _CHANGES_RESULTS]
    for line in (*_list_exclusions(advice), *list_texts(others)):
        screen.print(SafeText(line, style="dim"))


def _show_combination(screen: Console, title: str, option: AdviceOption) -> None:
    screen.print(SafeText(title, style="bold"))
    screen.print(_build_table((option,)))
    _explain_option(screen, option, option.name)


def _format_answer(advice: Advice) -> str:
    """What to use: what fits, where there is a limit, or that nothing does and what else would."""
    changed = next((note.text for note in advice.notes if note.id == _CHANGES_RESULTS), "")
    if changed:
        return changed[0].upper() + changed[1:]
    if advice.best is None:
        return "No technique improves this step"
    if advice.best.fits is False:
        return f"Nothing fits; {advice.best.name} comes closest"
    return f"Best: {advice.best.name}{', which fits' if advice.best.fits else ''}"


def _describe_step(advice: Advice) -> str:
    step = "" if advice.step_s is None else f": a step of {format_seconds(advice.step_s)}"
    peak = "" if advice.peak_bytes is None else f", peak {_format_bytes(advice.peak_bytes)}"
    limit = "" if advice.limit_bytes is None else f" of {format_bytes(advice.limit_bytes)}"
    return f"{advice.subject} on {advice.device}{step}{peak}{limit}; ranked by {advice.goal}"


def _build_table(options: Sequence[AdviceOption]) -> Table:
    """Without memory where that of none is known: names have more room then."""
    known = any(option.peak_bytes is not None or option.measured is not None for option in options)
    columns = [column for column in _COLUMNS if known or column.of is not _format_memory]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.title, width=column.width, overflow="fold")
    for option in options:
        table.add_row(*(column.of(option) for column in columns))
        if option.measured is not None:
            table.add_row(SafeText("  measured"), *_format_measured(option))
    return table


def _format_name(option: AdviceOption) -> SafeText:
    return SafeText(option.name)


def _format_time(option: AdviceOption) -> SafeText:
    saving, share = option.saving_s, option.saving_share
    if saving is None or share is None:
        return SafeText("unknown", style="dim")
    scale = share / saving.value if saving.value else 0.0
    if max(abs(saving.low), abs(saving.high)) * scale < _NO_CHANGE:
        return SafeText("no change")
    style = _BETTER if share > 0 else _WORSE
    if saving.bound == "at most":
        return SafeText(f"{format_signed_percent(-saving.high * scale, 0)} at most", style=style)
    low, high = (f"{-end * scale * 100:+.0f}" for end in (saving.high, saving.low))
    ends = "" if low == high else f" ({low} to {high})"
    return SafeText(f"{format_signed_percent(-share, 0)}{ends}", style=style)


def _format_memory(option: AdviceOption) -> SafeText:
    if option.peak_bytes is None or option.saving_bytes is None:
        return SafeText("unknown", style="dim")
    before = option.peak_bytes.value + option.saving_bytes
    change = -option.saving_bytes / before if before else 0.0
    fits = {None: "", True: ", fits", False: ", too much"}[option.fits]
    style = _WORSE if option.fits is False or change > 0 else _BETTER if change < 0 else ""
    changed = "" if abs(change) < _NO_CHANGE else f"{format_signed_percent(change, 0)} "
    return SafeText(f"{changed}{format_bytes(option.peak_bytes.value)}{fits}", style=style)


def _format_loss(option: AdviceOption) -> SafeText:
    risk = option.risk
    if not risk.comparable:
        return SafeText("changes results")
    return SafeText(
        "the same" if risk.basis.startswith("lossless") else f"within {format_percent(risk.tolerance or 0.0)}"
    )


class _Column(NamedTuple):
    """A column: its title, its width (None: the remaining space) and the cell of an option."""

    title: str
    width: int | None
    of: Callable[[AdviceOption], SafeText]


_COLUMNS = (
    _Column("technique", None, _format_name),
    _Column("time", 20, _format_time),
    _Column("memory", 22, _format_memory),
    _Column("loss", 15, _format_loss),
)


def _format_measured(option: AdviceOption) -> tuple[SafeText, SafeText, SafeText]:
    measured = option.measured
    assert measured is not None
    time = "unknown" if measured.time_ratio is None else format_signed_percent(measured.time_ratio - 1, 0)
    if measured.low is not None and measured.high is not None:
        time += f" ({measured.low * 100 - 100:+.0f} to {measured.high * 100 - 100:+.0f})"
    peak = "unknown" if measured.peak_bytes is None else format_bytes(measured.peak_bytes)
    acted = {True: "", False: "active in part" if measured.active_in_part else "not active", None: "not verified"}
    return SafeText(time), SafeText(peak), SafeText(measured.reason or acted[measured.active])


def _explain_option(screen: Console, option: AdviceOption, title: str) -> None:
    nothing = "saving unknown" if option.unknown_reasons else "no saving"
    screen.print(SafeText(f"{title}: {'; '.join(option.reasons) or nothing}"))
    lines = (
        *(f"assumes: {assumption}" for assumption in option.assumptions),
        *(f"unknown: {assumption}" for assumption in option.unknown_reasons),
        f"loss: {option.risk.basis}",
    )
    for line in lines:
        screen.print(Padding(SafeText(line, style="dim"), (0, 0, 0, 2)))


def _list_exclusions(advice: Advice) -> Iterator[str]:
    """A line for each reason why techniques are not combined, or left out."""
    for what, some in (("not combined", advice.clashes), ("left out", advice.excluded)):
        for reason, names in _group_by_reason(some).items():
            yield f"{what}: {', '.join(names)}: {reason}"


def _group_by_reason(left_out: Iterable[ExcludedVariant]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for item in left_out:
        reasons.setdefault(item.reason, []).append(item.name)
    return reasons


def _format_bytes(interval: Interval) -> str:
    if interval.low == interval.high:
        return format_bytes(interval.value)
    return f"{format_bytes(interval.low)} to {format_bytes(interval.high)}"
