"""A process is opened to what it starts itself only where the system asks for it, and only meanwhile."""

import ctypes
import os
from pathlib import Path

import pytest

from perfkit.instruments.stacks.permission import enable_child_tracing


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
