"""Lines of text while something goes on: one live line on a terminal, plain lines elsewhere.

Something is drawn only when a line arrives, so that whoever waits for a measurement sleeps.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from perfkit_reports.render.line import Line


@contextmanager
def show_lines(console: Console) -> Iterator[Callable[[str], None]]:
    """Yields a function that takes lines of text: each replaces the last on a terminal, and follows it elsewhere."""
    if console.is_terminal:
        with live_line(console) as live:
            yield lambda line: draw(live, line)
    else:
        yield lambda line: console.out(line, highlight=False)


def live_line(console: Console) -> Live:
    """A line that can be replaced, and is gone in the end."""
    return Live(Line("starting"), console=console, auto_refresh=False, transient=True)


def draw(live: Live, line: str) -> None:
    """Replace the line, cut to the terminal's width."""
    live.update(Line(line, no_wrap=True, overflow="ellipsis"), refresh=True)
