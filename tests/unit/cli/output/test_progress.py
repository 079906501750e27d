import io
import re
from collections.abc import Callable

from rich.console import Console

from perfkit.core.record.rank_record import RunStatus
from perfkit.measure.run_events import Event, PassStarted, RoundFinished, RoundStarted, RunFinished, RunStarted
from perfkit_cli.output.progress import show_progress
from tests.fixtures.figures import list_figures


def finished(index: int, status: RunStatus = RunStatus.OK, reason: str = "", seconds: float = 10.0) -> RunFinished:
    return RunFinished(index, 4, "amp", 0, status, reason, seconds)


EVENTS: tuple[Event, ...] = (
    RunStarted(0, 4, "baseline", 0),
    PassStarted("warm-up"),
    RunFinished(0, 4, "baseline", 0, RunStatus.OK, "", 12.0),
    RunStarted(1, 4, "amp", 0),
    finished(1, RunStatus.OUT_OF_MEMORY, "out of memory at step 3"),
    RunStarted(2, 4, "pinned", 0),
    finished(2, RunStatus.SKIPPED, "needs a GPU", 0.0),
    RunStarted(3, 4, "amp", 0),
)
BY_TURNS: tuple[Event, ...] = (
    *EVENTS[:3],
    RoundStarted(1, ("baseline", "amp"), None),
    PassStarted("baseline: building the model"),
    RoundFinished(1, 15.0, {"amp": None}),
    RoundStarted(2, ("baseline", "amp"), 45.0),
    PassStarted("turns"),
    RoundFinished(2, 15.0, {"amp": 0.0734}),
)
ALTERNATING: tuple[Event, ...] = (
    *EVENTS[:3],
    RoundStarted(1, ("baseline", "amp"), 70.0),
    RunStarted(0, 2, "amp", 1),
    PassStarted("timed steps"),
    RunFinished(0, 2, "amp", 1, RunStatus.OK, "", 9.0),
    RoundFinished(1, 21.0, {"amp": 0.02}),
)


def shown(console: Console, events: tuple[Event, ...] = EVENTS, clock: Callable[[], float] = lambda: 0.0) -> str:
    with show_progress(console, clock) as progress:
        for event in events:
            progress(event)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def plain(events: tuple[Event, ...]) -> list[str]:
    return shown(Console(file=io.StringIO(), width=80), events).splitlines()


def test_elsewhere_than_on_a_terminal_every_run_is_two_plain_lines_with_what_is_left_from_the_second_on() -> None:
    lines = plain(EVENTS)
    assert [re.split(": |, ", line)[:2] for line in lines] == [
        ["[1/4] baseline", "starting"],
        ["[1/4] baseline", "done (12.0 s)"],
        ["[2/4] amp", "starting"],
        ["[2/4] amp", "out of memory"],
        ["[3/4] pinned", "starting"],
        ["[3/4] amp", "skipped"],
        ["[4/4] amp", "starting"],
    ]
    assert "step 3" in lines[3]
    assert lines[5].endswith(": needs a GPU")
    seconds = [re.findall(r"[\d.]+ s\b", line) for line in lines]
    # What was skipped took no time.
    assert seconds == [[], ["12.0 s"], ["36.0 s"], ["10.0 s"], ["22.0 s"], [], ["11.0 s"]]


def test_a_round_says_what_is_known_by_then_and_how_long_it_will_take() -> None:
    first, done, second, measured = plain(BY_TURNS)[2:]
    assert (list_figures(first), done) == (["1"], "round 1: done (15.0 s)")
    assert (list_figures(second), measured) == (["2", "45.0 s"], "round 2: amp ±7.3 % (15.0 s)")
    assert all("baseline, amp: starting" in line for line in (first, second))


def test_where_processes_alternate_each_is_told() -> None:
    started, process, done, measured = plain(ALTERNATING)[2:]
    assert list_figures(started) == ["1", "70.0 s"]
    assert list_figures(process) == ["1", "1", "2", "2", "70.0 s"]
    assert (done, measured) == ("[1/2] amp, process 2: done (9.00 s)", "round 1: amp ±2.0 % (21.0 s)")


def test_on_a_terminal_the_pass_and_what_is_left_are_shown_live() -> None:
    text = shown(Console(file=io.StringIO(), width=80, force_terminal=True))
    assert "[1/4] baseline: warm-up" in text
    assert re.search(r"\[2/4\] amp: starting, .*36\.0 s", text)
    assert re.search(r"\[2/4\] amp: out of memory: .* 3 \(10\.0 s\)\n", text)
    text = shown(Console(file=io.StringIO(), width=80, force_terminal=True), BY_TURNS)
    assert re.search("round 1 .*: baseline: building", text)
    assert "round 2: amp ±7.3 % (15.0 s)\n" in text


def test_on_a_terminal_nothing_is_drawn_between_events() -> None:
    import threading

    before = threading.active_count()
    with show_progress(Console(file=io.StringIO(), force_terminal=True)) as progress:
        progress(EVENTS[0])
        assert threading.active_count() == before


def test_of_many_variants_a_round_tells_the_number_and_the_widest() -> None:
    names = tuple(f"variant{number}" for number in range(9))
    widths = {name: 0.01 * number or None for number, name in enumerate(names)}
    lines = plain((RoundStarted(1, names, None), RoundFinished(1, 60.0, widths)))
    assert len(lines) == 2
    assert re.search(r"\b9\b", lines[0])
    assert re.search(r"\b8\b.*variant8\b.*±8\.0 %.*60\.0 s", lines[1])


def test_a_quiet_console_shows_nothing() -> None:
    assert shown(Console(file=io.StringIO(), force_terminal=True, quiet=True)) == ""


def test_lines_have_the_elapsed_time_and_what_is_left_of_the_estimate() -> None:
    console, now = Console(file=io.StringIO(), width=80), [0.0]
    started, measured = RoundStarted(2, ("baseline", "amp"), 300.0), RunStarted(0, 2, "amp", 1)
    with show_progress(console, lambda: now[0]) as progress:
        for now[0], event in ((5.0, BY_TURNS[0]), (30.0, started), (95.0, measured)):
            progress(event)
    assert isinstance(console.file, io.StringIO)
    begun, second, process = console.file.getvalue().splitlines()
    assert "5.00 s elapsed" in begun
    assert "30.0 s elapsed, about 5 min 0 s left" in second
    assert "95.0 s elapsed, about 3 min 55 s left" in process
