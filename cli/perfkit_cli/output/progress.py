"""Shows the progress of a suite: one live line on a terminal, plain lines elsewhere.

It draws only when an event arrives: while a child measures, the parent sleeps.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean
from time import monotonic

from rich.console import Console
from rich.live import Live

from perfkit.core.record.rank_record import RunStatus
from perfkit.core.units import format_percent, format_seconds
from perfkit.measure.run_events import (
    BudgetExceeded,
    Event,
    PassStarted,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunStarted,
)
from perfkit_cli.output.live_lines import draw_line, make_live_line
from perfkit_reports.render.safe_text import SafeText

_NAMED = 6  # variants of a round listed by name

Report = Callable[[Event], None]


class ProgressText:
    """The current activity in words, from the events so far, with the time since the first (`clock` in seconds)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun_s = self._round_begun_s = clock()
        self._run: RunStarted | None = None
        self._round: RoundStarted | None = None
        self._first_s: list[float] = []

    def format_event(self, event: Event) -> str:
        """The line for an event: what starts, or how it ended."""
        match event:
            case RunStarted():
                self._run = event
                return self._format_running("starting")
            case PassStarted():
                return self._format_running(event.name)
            case RunFinished():
                if self._round is None and event.status != RunStatus.SKIPPED:
                    self._first_s.append(event.seconds)
                return _format_finished(event)
            case RoundStarted():
                self._round, self._run, self._round_begun_s = event, None, self._clock()
                return self._format_running("starting")
            case RoundFinished():
                self._round = None
                return _format_round_finished(event)
            case BudgetExceeded():
                return (
                    f"--budget {format_seconds(event.budget_s)} does not suffice: first runs and one round take about "
                    f"{format_seconds(event.needed_s)}. Name fewer techniques, or raise --budget"
                )

    def _format_running(self, doing: str) -> str:
        if self._round is None:
            assert self._run is not None, "a run starts before its passes"
            return f"{_format_label(self._run)}: {doing}{self._estimate_first_runs(self._run)}"
        which = f", {_format_label(self._run)}" if self._run else f" of {_format_names(self._round.variants)}"
        return f"round {self._round.number}{which}: {doing}{self._format_times(self._round.left_s)}"

    def _format_times(self, left_s: float | None) -> str:
        """The elapsed time, and what is left of an estimate made when the round began."""
        if left_s is None:
            return self._format_elapsed()
        left_s = max(left_s - (self._clock() - self._round_begun_s), 0.0)
        return f"{self._format_elapsed()}, about {format_seconds(left_s)} left"

    def _format_elapsed(self) -> str:
        elapsed_s = self._clock() - self._begun_s
        return f", {format_seconds(elapsed_s)} elapsed" if elapsed_s > 0 else ""

    def _estimate_first_runs(self, event: RunStarted) -> str:
        """Estimates the same time for each first run as the average so far: all of them have the same passes."""
        if not self._first_s:
            return self._format_elapsed()
        left_s = (event.total - event.index) * fmean(self._first_s)
        return f"{self._format_elapsed()}, about {format_seconds(left_s)} left for the first runs"


@contextmanager
def show_progress(console: Console, clock: Callable[[], float] = monotonic) -> Iterator[Report]:
    """Yields the function that takes the events of a bench."""
    doing = ProgressText(clock)
    if console.is_terminal:
        with make_live_line(console) as live:
            yield _make_live_report(live, doing)
    else:
        yield _make_plain_report(console, doing)


def _make_live_report(live: Live, doing: ProgressText) -> Report:

    def report(event: Event) -> None:
        line = doing.format_event(event)
        if isinstance(event, RunFinished | RoundFinished | BudgetExceeded):
            live.update(SafeText(""))
            live.console.print(SafeText(line))
        else:
            draw_line(live, line)

    return report


def _make_plain_report(console: Console, doing: ProgressText) -> Report:

    def report(event: Event) -> None:
        line = doing.format_event(event)
        if not isinstance(event, PassStarted):
            console.out(line, highlight=False)

    return report


def _format_finished(event: RunFinished) -> str:
    if event.status == RunStatus.SKIPPED:
        return f"{_format_label(event)}: skipped: {event.reason}"
    end = "done" if event.status == RunStatus.OK else f"{event.status}: {event.reason}"
    return f"{_format_label(event)}: {end} ({format_seconds(event.seconds)})"


def _format_round_finished(event: RoundFinished) -> str:
    """Formats the precision of each comparison so far."""
    widths = {name: width for name, width in event.widths.items() if width is not None}
    known = ", ".join(f"{name} ±{format_percent(width)}" for name, width in widths.items())
    if len(widths) > _NAMED:
        widest = max(widths, key=widths.__getitem__)
        known = f"{len(widths)} variants, the least precise {widest} ±{format_percent(widths[widest])}"
    return f"round {event.number}: {known or 'done'} ({format_seconds(event.seconds)})"


def _format_names(variants: Sequence[str]) -> str:
    return ", ".join(variants) if len(variants) <= _NAMED else f"{len(variants)} variants"


def _format_label(event: RunStarted | RunFinished) -> str:
    again = f", process {event.repeat + 1}" if event.repeat else ""
    return f"[{event.index + 1}/{event.total}] {event.variant}{again}"
