"""Prints progress: one live line on a terminal, plain lines elsewhere.

It draws only when a line arrives, so that the process that waits for a measurement sleeps.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from perfkit_reports.render.safe_text import SafeText


@contextmanager
def show_lines(console: Console) -> Iterator[Callable[[str], None]]:
    """Yields a function that takes lines of text: each replaces the last on a terminal, and follows it elsewhere."""
    if console.is_terminal:
        with make_live_line(console) as live:
            yield lambda line: draw_line(live, line)
    else:
        yield lambda line: console.out(line, highlight=False)


def make_live_line(console: Console) -> Live:
    """A line that can be replaced, and is gone in the end."""
    return Live(SafeText("starting"), console=console, auto_refresh=False, transient=True)


def draw_line(live: Live, line: str) -> None:
    """Replace the line, cut to the terminal's width."""
    live.update(SafeText(line, no_wrap=True, overflow="ellipsis"), refresh=True)
