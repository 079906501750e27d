"""A check on a terminal, of any width: each variant's gated quantities, reasons, suspects, and one closing line."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfkit.check.result import Check, CheckedVariant, Judged, Verdict
from perfkit_reports import palette
from perfkit_reports.plain import one_line
from perfkit_reports.screen import bare_table, fits, text
from perfkit_reports.subjects.check import quantities as cells
from perfkit_reports.subjects.check import story

COLOURS = {
    Verdict.PASS: palette.GREEN,
    Verdict.FAIL: f"bold {palette.VERMILLION}",
    Verdict.IMPROVED: palette.SKY,
    Verdict.INCONCLUSIVE: palette.ORANGE,
    Verdict.NOT_COMPARED: palette.NEUTRAL,
}
_TITLE = 13  # characters of a line of a quantity's name, which is a word of the longest
_WHOLE = 6  # with more variants than that, those where everything passes take a line each


def render(check: Check, console: Console, folder: Path | None = None, *, verbose: bool = False) -> None:
    """Print the check; `folder` is where its report was written. `verbose` also shows what is not gated.

    Nothing of the check is read as rich's markup, and no control character of it reaches the terminal.
    """
    console.print()
    console.print(Text(story.sides(check), style="bold"))
    for variant in check.variants:
        if story.uneventful(variant) and len(check.variants) > _WHOLE and not verbose:
            passed = Text.assemble((story.name(variant), "bold"), f": {story.summary(variant)}")
            _item(cells.SYMBOLS[Verdict.PASS], passed, console, COLOURS[Verdict.PASS])
        else:
            _variant(variant, console, verbose)
    console.print()
    for warning in story.warnings(check):
        console.print(Text.assemble(("! ", palette.ORANGE), warning))
    if any(each.exact for variant in check.variants for each in variant.judged):
        console.print(Text("without an interval: counted, and compared exactly", style="dim"))
    console.print(Text(story.sampled(check), style="dim"))
    if folder is not None:
        console.print(Text.assemble("report: ", (str(folder / "report.html"), "bold")), soft_wrap=True)
    _closing(check, console)


def _variant(variant: CheckedVariant, console: Console, verbose: bool) -> None:
    console.print()
    console.print(Text(story.name(variant), style="bold"))
    gated = story.gated(variant)
    if not gated:
        console.print(Text("  nothing of it is gated", style="dim"))
    _quantities([each for each in gated if each.verdict is not Verdict.NOT_COMPARED], console)
    for reason in story.reasons(variant):
        _item(cells.SYMBOLS[reason.verdict], Text(story.line(reason)), console, COLOURS[reason.verdict])
    for note in story.notes(variant):
        _item("!", Text(note), console, palette.ORANGE)
    for suspect in story.suspects(variant):
        _item("→", Text.assemble(("suspect: ", "bold"), suspect), console)
    if verbose:
        _also(variant, console)


def _quantities(judged: Sequence[Judged], console: Console) -> None:
    """A table; on a narrow terminal without the values before, which the change tells too; else lines."""
    folding = max((cell_len(cells.title(each).text) - _TITLE for each in judged), default=0)
    for drawn in (_table(judged, with_before=True), _table(judged, with_before=False)) if judged else ():
        if fits(drawn, console, max(0, folding)):
            console.print(drawn)
            return
    for each in judged:
        _stacked(each, console)


def _table(judged: Sequence[Judged], *, with_before: bool) -> Table:
    sides = (("before", cells.before), ("after", cells.after))[0 if with_before else 1 :]
    drawn = bare_table()
    drawn.add_column(Text("quantity"), overflow="fold", min_width=_TITLE)
    for title in (*(title for title, _ in sides), "change", "allowed"):
        drawn.add_column(Text(title), justify="right", no_wrap=True)
    drawn.add_column(Text("verdict"), no_wrap=True)
    for each in judged:
        change = cells.change(each)
        drawn.add_row(
            Text(cells.title(each).text),
            *(Text(cell(each).text) for _, cell in sides),
            text(change if not each.exact else replace(change, detail="")),
            Text(cells.threshold(each).text),
            Text(cells.said(each.verdict), style=COLOURS[each.verdict]),
        )
    return drawn


def _stacked(judged: Judged, console: Console) -> None:
    """A quantity in lines, where a table has no room."""
    word = (f"{judged.verdict.value} ", COLOURS[judged.verdict])
    title = (cells.title(judged).text, "bold")
    lines = Text.assemble(word, title, f"\n{_figures(judged)}", (f"\nallowed: {cells.threshold(judged).text}", "dim"))
    _item(cells.SYMBOLS[judged.verdict], lines, console, COLOURS[judged.verdict])


def _figures(judged: Judged) -> str:
    """`12.8 ms → 13.7 ms, +7.8 % (+6.5 to +9.3 %)`."""
    change = cells.change(judged)
    figures = f"{cells.before(judged).text} → {cells.after(judged).text}, {change.text}"
    return f"{figures} ({change.detail})" if change.detail else figures


def _also(variant: CheckedVariant, console: Console) -> None:
    """What is not gated, and what the data could have shown."""
    for each in story.reported(variant):
        missing = each.verdict is Verdict.NOT_COMPARED
        _item("·", Text(f"{cells.title(each).text}: {one_line(each.reason) if missing else _figures(each)}"), console)
    limit = story.detectable(story.gated(variant))
    if limit:
        _item("·", Text(limit), console)


def _item(symbol: str, words: Text, console: Console, style: str = "") -> None:
    """A symbol and words beside it, that stay beside it where they wrap."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(f"  {symbol}", style=style), words)
    console.print(grid)


def _closing(check: Check, console: Console) -> None:
    todo = story.to_do(check)
    words = f"{check.verdict.value}: {story.headline(check)}{f'. {todo}' if todo else ''}"
    console.print(Text.assemble((f"{cells.SYMBOLS[check.verdict]} ", COLOURS[check.verdict]), words))
