"""Whose turn it is with torch's profiler."""

import threading

import pytest
import torch
import torch.autograd.profiler as autograd_profiler
from torch.profiler import ProfilerActivity, profile

from perfkit.attach.host import profiler_turn
from perfkit.attach.host.guard import Guard
from perfkit.attach.host.profiler_turn import ProfilerTurn


class Told(ProfilerTurn):
    """Counts how often it was to give way, and does so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.guard = Guard(lambda: None)
        self.install(self.guard, self.give_way)

    def give_way(self) -> None:
        self.asked += 1
        self.ours = False


def a_profile() -> profile:
    return profile(activities=[ProfilerActivity.CPU])


def test_the_programs_profiler_is_seen_from_its_beginning_to_its_end() -> None:
    turn = Told()
    assert (turn.theirs, turn.seen) == (False, False)
    with a_profile():
        assert turn.theirs
    assert (turn.theirs, turn.seen) == (False, True)
    assert turn.asked == 0
    turn.remove()


def test_one_that_was_on_before() -> None:
    with a_profile():
        turn = Told()
        assert turn.theirs
    assert not turn.theirs
    turn.remove()


def test_what_perfkit_calls_is_not_theirs() -> None:
    turn = Told()
    with turn.hold_profiler(), turn.mark_own_calls(), a_profile():
        assert not turn.theirs
        assert turn.ours
    assert (turn.ours, turn.seen, turn.asked) == (False, False, 0)
    turn.remove()


def test_ours_gives_way_before_theirs_begins() -> None:
    turn = Told()
    with turn.hold_profiler():
        with a_profile():
            assert turn.theirs
        assert turn.asked == 1
    turn.remove()


def test_ours_is_not_ended_by_another_thread() -> None:
    turn = Told()

    def elsewhere() -> None:
        with a_profile():
            pass

    with turn.hold_profiler():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert turn.asked == 0
    assert turn.seen
    turn.remove()


def test_all_is_put_back() -> None:
    names = ("_prepare_profiler", "_enable_profiler", "_disable_profiler")
    before = [getattr(autograd_profiler, name) for name in names]
    turn = Told()
    assert before != [getattr(autograd_profiler, name) for name in names]
    turn.remove()
    assert before == [getattr(autograd_profiler, name) for name in names]
    assert before == [getattr(torch._C._autograd, name) for name in names]


def test_the_programs_recordings_of_a_gpu_count_among_the_processs(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(profiler_turn, "count_session", lambda: begun.append("session"))
    monkeypatch.setattr(autograd_profiler, "_enable_profiler", lambda config, activities: None)
    turn = Told()
    for activities, expected in (({ProfilerActivity.CPU}, 0), ({ProfilerActivity.CPU, ProfilerActivity.CUDA}, 1)):
        autograd_profiler._enable_profiler(None, activities)
        assert len(begun) == expected
    turn.remove()
