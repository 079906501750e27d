"""This process, as two py-spys see it."""

import ctypes
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from perfkit.instruments.stacks import own_stacks
from perfkit.instruments.stacks.own_stacks import enable_child_tracing, sample_own_stacks
from perfkit.store.stacks import COLLAPSED_FILE, LOOP, SampledStacks
from tests.fixtures.py_spy import no_py_spy, py_spy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="loop stacks are sampled on Linux")


def look(folder: Path, begun: int = 0) -> SampledStacks:
    """What is found by the time that so many have begun."""
    found: list[SampledStacks] = []
    end = time.monotonic() + 30
    with sample_own_stacks(folder, 100, found.append):
        while len(list(folder.glob("*.begun"))) < begun and time.monotonic() < end:
            time.sleep(0.01)
    [seen] = found
    return seen


def test_what_the_thread_did_and_what_of_it_with_the_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    thread = f"thread ({threading.get_native_id()}): MainThread;"
    py_spy(
        monkeypatch,
        tmp_path,
        every=f'process 1:"sh";{thread}main (/me/train.py:3) 9\n'.replace("process 1", "process $PPID"),
        held=f"{thread}main (/me/train.py:3) 4\n",
    )
    seen = look(tmp_path, begun=2)
    [loop] = seen.threads
    assert (loop.thread, loop.samples, seen.reason, seen.failed_samples) == (LOOP, 9, "", 4)
    assert loop.lock_samples is not None
    assert [taken.count for taken in loop.lock_samples] == [4]
    assert seen.seconds > 0
    assert {path.name for path in tmp_path.glob("*.txt")} == {COLLAPSED_FILE}


def test_a_thread_that_never_held_the_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    py_spy(monkeypatch, tmp_path, every=f"thread ({threading.get_native_id()});wait (/me/train.py:3) 9\n", held="")
    [loop] = look(tmp_path, begun=2).threads
    assert loop.lock_samples == ()


def test_why_nothing_was_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    py_spy(monkeypatch, tmp_path, fails="Error: Operation not permitted (os error 1)")
    assert "cannot be inspected" in look(tmp_path).reason
    no_py_spy(monkeypatch, tmp_path)
    assert look(tmp_path).reason.endswith(" py-spy")
    monkeypatch.setattr(own_stacks.sys, "platform", "win32")
    assert "Linux" in look(tmp_path).reason


def test_where_nothing_can_be_sampled_that_is_told_before_the_loop_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(own_stacks.sys, "platform", "darwin")
    found: list[SampledStacks] = []
    with pytest.raises(GeneratorExit), sample_own_stacks(tmp_path, 100, found.append):
        raise GeneratorExit
    assert ["Linux" in seen.reason for seen in found] == [True]


def test_a_py_spy_that_saw_no_thread_of_the_loop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    py_spy(monkeypatch, tmp_path)
    assert look(tmp_path, begun=2).reason.startswith("py-spy ")


def test_a_loop_that_ends_before_py_spy_has_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    py_spy(monkeypatch, tmp_path, slow=True)
    assert look(tmp_path).reason.startswith("the loop ended ")


class FakeLibc:
    def __init__(self) -> None:
        self.named: list[int] = []

    def prctl(self, option: int, pid: ctypes.c_ulong) -> int:
        assert option == int.from_bytes(b"Yama")
        self.named.append(pid.value)
        return 0


def test_its_descendants_are_named_for_as_long_as_they_look(tmp_path: Path) -> None:
    scope, libc = tmp_path / "ptrace_scope", FakeLibc()
    scope.write_text("1\n")
    with enable_child_tracing(scope, libc):
        assert libc.named == [os.getpid()]
    assert libc.named == [os.getpid(), 0]


@pytest.mark.parametrize("scope", [None, "0\n", "2\n", "3\n"])
def test_where_it_is_allowed_or_cannot_be_nothing_is_done(scope: str | None, tmp_path: Path) -> None:
    file, libc = tmp_path / "ptrace_scope", FakeLibc()
    if scope is not None:
        file.write_text(scope)
    with enable_child_tracing(file, libc):
        pass
    assert libc.named == []
