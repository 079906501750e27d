"""What asks for a trace, for one rank and for several that share a folder."""

import logging
import os
import signal
import threading
from pathlib import Path

import pytest

from perfkit.attach.live.live_events import StepEvent
from perfkit.attach.live.trace_triggers import REASONS, TRACE_NOW, TraceTriggers
from perfkit.core.errors import UsageError
from tests.fixtures.figures import list_figures

S = 10**9
DRIFT = StepEvent("drift", 5, 1.2, 1.0, "steps take 20 % longer")
OUTLIER = StepEvent("outlier", 5, 3.0, 1.0, "step 5 took 3 s")


def test_nothing_is_due_when_nothing_happens(tmp_path: Path) -> None:
    triggers = TraceTriggers(["regression", "file"], tmp_path)
    triggers.poll(10, 0, 0.02)
    assert triggers.get_due_reason(10) is None
    triggers.close()


def test_an_event_that_is_a_reason_is_due_at_once(tmp_path: Path) -> None:
    triggers = TraceTriggers(["regression"], tmp_path)
    triggers.handle_event(OUTLIER, 0)
    triggers.poll(10, 0, 0.02)
    assert triggers.get_due_reason(10) is None
    triggers.handle_event(DRIFT, 0)
    triggers.poll(11, 0, 0.02)
    assert triggers.get_due_reason(11) == DRIFT.text
    triggers.mark_started(0)
    triggers.poll(12, 0, 0.02)
    assert triggers.get_due_reason(12) is None
    assert list(tmp_path.iterdir()) == []


def test_automatic_traces_are_few_and_far_between(tmp_path: Path) -> None:
    triggers = TraceTriggers(["outlier"], tmp_path, max_traces=2, distance_s=100)
    granted = []
    for now in range(0, 1000, 30):
        triggers.handle_event(OUTLIER, now * S)
        triggers.poll(now, now * S, 1.0)
        if triggers.get_due_reason(now):
            triggers.mark_started(now * S)
            granted.append(now)
    assert granted == [0, 120]


def test_what_happens_while_a_request_waits_is_not_another(tmp_path: Path) -> None:
    triggers = TraceTriggers(["outlier"], tmp_path, distance_s=100)
    triggers.handle_event(OUTLIER, 0)
    triggers.poll(1, 0, 1.0)
    triggers.handle_event(OUTLIER, 0)
    triggers.mark_started(0)
    triggers.poll(2, 1 * S, 1.0)
    assert triggers.get_due_reason(2) is None


def test_a_file_is_always_granted_and_removed(tmp_path: Path) -> None:
    triggers = TraceTriggers(["file"], tmp_path, max_traces=0)
    for step in range(5):
        (tmp_path / TRACE_NOW).touch()
        triggers.poll(step, 0, 0.02)
        assert triggers.get_due_reason(step) == f"the file {TRACE_NOW}"
        triggers.mark_started(0)
        assert not (tmp_path / TRACE_NOW).exists()


def test_a_file_from_before_the_start_is_removed(tmp_path: Path) -> None:
    (tmp_path / TRACE_NOW).write_text('{"step":100000,"reason":"old","automatic":true}')
    triggers = TraceTriggers(["file"], tmp_path)
    triggers.poll(1, 0, 0.02)
    assert triggers.get_due_reason(1) is None
    assert not (tmp_path / TRACE_NOW).exists()


def test_a_file_is_no_reason_where_none_was_asked_for(tmp_path: Path) -> None:
    triggers = TraceTriggers(["outlier"], tmp_path)
    (tmp_path / TRACE_NOW).touch()
    triggers.poll(1, 0, 0.02)
    assert triggers.get_due_reason(1) is None


def test_unknown_reasons_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'regression'"):
        TraceTriggers(["regresion"], tmp_path)


def ranks(folder: Path, on: tuple[str, ...] = REASONS[:2], count: int = 3) -> list[TraceTriggers]:
    return [TraceTriggers(on, folder, rank=rank, world_size=count) for rank in range(count)]


def first_due(all_ranks: list[TraceTriggers], first: int, steps: int, step_s: float) -> dict[int, int]:
    """Run all ranks in step, each looking once a second at a moment of its own; the step each begins to trace after."""
    found: dict[int, int] = {}
    for step in range(first, first + steps):
        now = round(step * step_s * S)
        for rank, triggers in enumerate(all_ranks):
            every = max(1, round(1 / step_s))
            if step % every == rank % every:
                triggers.poll(step, now, step_s)
            if triggers.get_due_reason(step):
                triggers.mark_started(now)
                assert rank not in found
                found[rank] = step
    return found


@pytest.mark.parametrize("step_s", [0.02, 5.0])
@pytest.mark.parametrize("asking", [0, 2])
def test_all_ranks_trace_the_same_steps(tmp_path: Path, asking: int, step_s: float) -> None:
    together = ranks(tmp_path)
    together[asking].handle_event(DRIFT, 0)
    found = first_due(together, 100, 400, step_s)
    assert len(found) == 3
    assert len(set(found.values())) == 1
    assert list(tmp_path.iterdir()) == []  # removed when all had time to read it


def test_ranks_that_ask_together_trace_once(tmp_path: Path) -> None:
    together = ranks(tmp_path)
    for triggers in together[:-1]:
        triggers.handle_event(DRIFT, 0)
    found = first_due(together, 100, 400, 0.02)
    assert len(set(found.values())) == 1
    assert together[-1].handle_event(DRIFT, 10 * S)  # which the others have reported before
    assert first_due(together, 600, 400, 0.02) == {}
    for triggers in together:
        assert triggers.handle_event(DRIFT, 20 * S) == ""
    again = first_due(together, 1100, 400, 0.02)
    assert len(again) == len(together)
    assert len(set(again.values())) == 1


@pytest.mark.parametrize("content", ["", "now\n"])
def test_a_file_that_a_user_makes_holds_for_all_ranks(tmp_path: Path, content: str) -> None:
    together = ranks(tmp_path, ("file",))
    (tmp_path / TRACE_NOW).write_text(content)
    found = first_due(together, 100, 400, 0.02)
    assert len(found) == 3
    assert len(set(found.values())) == 1


def test_a_request_is_taken_away_at_the_end(tmp_path: Path) -> None:
    together = ranks(tmp_path, count=2)
    together[1].handle_event(DRIFT, 0)
    together[1].poll(1, 0, 10.0)
    together[0].poll(2, 0, 10.0)
    assert together[0].get_due_reason(4)
    together[0].mark_started(0)
    for triggers in together:
        triggers.close()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def handler() -> object:
    """Whatever handler there is for SIGUSR1 is back afterwards."""
    before = signal.getsignal(signal.SIGUSR1)
    yield before
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("handler")
def test_a_signal_asks_and_goes_on_to_the_program(tmp_path: Path) -> None:
    heard: list[int] = []

    def program(number: int, frame: object) -> None:
        heard.append(number)

    signal.signal(signal.SIGUSR1, program)
    triggers = TraceTriggers(["signal"], tmp_path)
    os.kill(os.getpid(), signal.SIGUSR1)
    triggers.poll(1, 0, 0.02)
    assert triggers.get_due_reason(1) == "SIGUSR1"
    assert heard == [signal.SIGUSR1]
    triggers.mark_started(0)
    triggers.poll(2, 0, 0.02)
    assert triggers.get_due_reason(2) is None
    triggers.close()
    assert signal.getsignal(signal.SIGUSR1) is program


@pytest.mark.usefixtures("handler")
def test_a_handler_that_came_later_stays(tmp_path: Path) -> None:
    triggers = TraceTriggers(["signal"], tmp_path)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    triggers.close()
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN


@pytest.mark.usefixtures("handler")
def test_outside_of_the_main_thread_the_signal_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    made: list[TraceTriggers] = []
    with caplog.at_level(logging.WARNING):
        thread = threading.Thread(target=lambda: made.append(TraceTriggers(["signal"], tmp_path)))
        thread.start()
        thread.join()
    assert "main thread" in caplog.text
    assert signal.getsignal(signal.SIGUSR1) == before
    made[0].close()
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_second_drift_is_traced_like_the_first_and_one_too_many_says_why_not(tmp_path: Path) -> None:
    triggers = TraceTriggers(["regression", "outlier"], tmp_path, max_traces=2)
    refusals = []
    for now in (10, 40, 50):
        refusals.append(triggers.handle_event(DRIFT, now * S))
        triggers.poll(now, now * S, 1.0)
        if triggers.get_due_reason(now) is not None:
            assert triggers.get_due_reason(now) == DRIFT.text
            triggers.mark_started(now * S)
    assert [bool(refusal) for refusal in refusals] == [False, False, True]
    assert list_figures(refusals[-1]) == ["2"]


def test_an_outlier_soon_after_a_trace_says_why_it_is_not_traced(tmp_path: Path) -> None:
    triggers = TraceTriggers(["outlier"], tmp_path, distance_s=90)
    triggers.handle_event(OUTLIER, 0)
    triggers.poll(1, 0, 1.0)
    triggers.mark_started(0)
    assert list_figures(triggers.handle_event(OUTLIER, 60 * S)) == ["90.0 s"]
    assert triggers.handle_event(DRIFT, 60 * S) == ""  # nobody asked for it
