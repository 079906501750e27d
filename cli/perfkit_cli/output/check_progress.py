"""Shows the progress of a check: the current run and side, and how far sampling has come."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from perfkit.check.check_events import CheckEvent, EnvironmentEvent, SamplingEvent, SideEvent
from perfkit.check.sides.pair_events import PairFinished, PairProgress, PairStarted
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.units import format_seconds
from perfkit.measure.run_events import PassStarted, RunFinished, RunStarted
from perfkit_cli.output.live_lines import draw_line, make_live_line


@contextmanager
def show_check_progress(console: Console) -> Iterator[Callable[[CheckEvent], None]]:
    """Yields the function that takes the events of a check: a live line on a terminal, else a line for what ended."""
    if console.is_terminal:
        with make_live_line(console) as live:
            yield lambda event: draw_line(live, format_event(event))
    else:
        yield lambda event: _print_end_line(event, console)


def format_event(event: CheckEvent) -> str:
    """An event in words."""
    if isinstance(event, EnvironmentEvent):
        return f"{event.label}: {event.text}"
    if isinstance(event, SamplingEvent):
        return f"{event.workload} {event.variant}: {_format_pair(event)}"
    rounds = f", round {event.index + 1} of {event.rounds}" if event.rounds > 1 else ""
    return f"{event.workload}, {event.label}{rounds}: {_format_run(event)}"


def _format_run(event: SideEvent) -> str:
    match event.event:
        case RunStarted(variant=variant):
            return f"starting {variant}"
        case PassStarted(name=name):
            return name
        case RunFinished(variant=variant, status=status, reason=reason, seconds=elapsed_s):
            end = str(status) if status == RunStatus.OK else f"{status}: {reason}"
            return f"{variant} {end} after {format_seconds(elapsed_s)}"


def _format_pair(event: SamplingEvent) -> str:
    match event.event:
        case PairStarted(index=index, spent_s=spent):
            return f"process pair {index + 1}, {format_seconds(spent)} so far"
        case PairProgress(text=text):
            return text
        case PairFinished(index=index, pair=pair):
            return f"process pair {index + 1} took {format_seconds(pair.seconds)}"


def _print_end_line(event: CheckEvent, console: Console) -> None:
    if isinstance(event, EnvironmentEvent) or isinstance(event.event, RunFinished | PairFinished):
        console.out(format_event(event), highlight=False)
