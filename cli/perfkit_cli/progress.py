"""The progress of a suite: one live line on a terminal, plain lines elsewhere.

Something is drawn only when an event arrives: while a child measures, the parent sleeps.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

from rich.console import Console
from rich.live import Live

from perfkit.measure.bench import Event, PassStarted, RunFinished, RunStarted
from perfkit.record import Status
from perfkit.units import seconds
from perfkit_cli.lines import draw, live_line
from perfkit_reports.render.line import Line

Report = Callable[[Event], None]


class TimeLeft:
    """Estimates what is left of a suite: as long for each run as the launched ones took on average.

    Early on that is too much, because the first run of every variant has the instrumented passes.
    """

    def __init__(self) -> None:
        self._durations: list[float] = []

    def ended(self, run: RunFinished) -> None:
        if run.status != Status.SKIPPED:
            self._durations.append(run.seconds)

    def after(self, remaining: int) -> float | None:
        """Seconds that `remaining` runs will take; None before anything is known."""
        return remaining * fmean(self._durations) if self._durations else None


@contextmanager
def show_progress(console: Console) -> Iterator[Report]:
    """Yields the function that takes the events of a bench."""
    if console.is_terminal:
        with live_line(console) as live:
            yield _live_line(live)
    else:
        yield _plain_lines(console)


def _live_line(live: Live) -> Report:
    left = TimeLeft()
    running = RunStarted(0, 0, "", 0)

    def report(event: Event) -> None:
        nonlocal running
        if isinstance(event, RunFinished):
            left.ended(event)
            live.update(Line(""))
            live.console.print(Line(_finished(event)))
            return
        if isinstance(event, RunStarted):
            running = event
        doing = event.name if isinstance(event, PassStarted) else "starting"
        draw(live, _running(running, doing, left))

    return report


def _plain_lines(console: Console) -> Report:
    left = TimeLeft()

    def report(event: Event) -> None:
        if isinstance(event, RunFinished):
            left.ended(event)
            console.out(_finished(event), highlight=False)
        elif isinstance(event, RunStarted):
            console.out(_running(event, "starting", left), highlight=False)

    return report


def _running(event: RunStarted, doing: str, left: TimeLeft) -> str:
    time_left = left.after(event.total - event.index)
    eta = "" if time_left is None else f", about {seconds(time_left)} left"
    return f"{_label(event)}: {doing}{eta}"


def _finished(event: RunFinished) -> str:
    if event.status == Status.SKIPPED:
        return f"{_label(event)}: skipped: {event.reason}"
    end = "done" if event.status == Status.OK else f"{event.status}: {event.reason}"
    return f"{_label(event)}: {end} ({seconds(event.seconds)})"


def _label(event: RunStarted | RunFinished) -> str:
    return f"[{event.index + 1}/{event.total}] {event.variant}, process {event.repeat + 1}"
