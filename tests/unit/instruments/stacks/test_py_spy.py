"""Why py-spy saw nothing, in its own words, and what to do."""

import subprocess
import sys
from pathlib import Path

import pytest

from perfkit.core.errors import PerfkitError, UnavailableError, UsageError
from perfkit.instruments.sensors.process_sampling import find_process
from perfkit.instruments.stacks import py_spy as spying
from perfkit.instruments.stacks.py_spy import explain_failure, spy_on_process
from tests.fixtures.errors import has_id
from tests.fixtures.py_spy import OUTPUT, fake

# What py-spy 0.4.3 says: the first two recorded, the third from its source.
ENDED = "Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n    0: No such"
NO_PYTHON = "Error: No python processes found in process 5 or any of its subprocesses\n"
NOT_PERMITTED = "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'\n"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ENDED, "ended"),
        (NO_PYTHON, "Python"),
        ("Error: Failed to find python version from target process\n", "Python"),
        ("Error: Unsupported version of Python: 3.16.0\n", "Python 3.16.0"),
        (NOT_PERMITTED, "ask"),
        ("Error: Operation not permitted (os error 1)\n", "ask"),
        ("Error: something new\n\nStack backtrace:\n", "something new"),
        ("", "no reason"),
    ],
    ids=["ended", "no-python", "no-version", "unsupported", "not-permitted", "os-error", "unknown", "silent"],
)
def test_a_failure_is_a_line_that_says_what_to_do(said: str, told: str) -> None:
    message = str(explain_failure(5, said, scope=lambda: "ask"))
    assert "process 5" in message
    assert told in message
    assert "\n" not in message


def test_what_forbids_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scope = tmp_path / "ptrace_scope"
    monkeypatch.setattr(spying, "SCOPE", scope)
    monkeypatch.setattr(spying.os, "geteuid", lambda: 0, raising=False)
    assert "--cap-add SYS_PTRACE" in str(explain_failure(5, NOT_PERMITTED))
    monkeypatch.setattr(spying.os, "geteuid", lambda: 1000, raising=False)
    assert "sudo" in str(explain_failure(5, NOT_PERMITTED))
    scope.write_text("1\n")
    assert "ptrace_scope=0" in str(explain_failure(5, NOT_PERMITTED))


def test_without_py_spy_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnavailableError, match=r" py-spy$", check=has_id("skip.package")):
        spy_on_process(5, tmp_path / "stacks", seconds=1.0, hz=10)


@pytest.mark.skipif(sys.platform == "win32", reason="the fake is a shell script")
def test_what_it_saw_and_missed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, tmp_path, OUTPUT + 'echo "a 1" > "$out"; echo "Samples: 10 Errors: 3" >&2')
    seen = spy_on_process(5, tmp_path / "stacks", seconds=60.0, hz=10)
    assert (seen.text, seen.failed) == ("a 1\n", 3)
    assert seen.seconds < 60  # it ended with the process


@pytest.mark.skipif(sys.platform == "win32", reason="the fake is a shell script")
def test_secrets_of_command_lines_are_kept_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = 'process 5:"python x.py --api-key {0} -v";process 6:"sh -c A_TOKEN={0}; ls";thread (5);f (x.py:1) 7\n'
    fake(monkeypatch, tmp_path, OUTPUT + f"cat > \"$out\" <<'PASTE'\n{line.format('q7Zr2')}PASTE\n")
    seen = spy_on_process(5, tmp_path / "stacks", seconds=60.0, hz=10)
    assert seen.text == line.format("REDACTED") == (tmp_path / "stacks").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="the fake is a shell script")
def test_its_failure_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, tmp_path, f'#!/bin/sh\necho "{NO_PYTHON.strip()}" >&2; exit 1')
    with pytest.raises(PerfkitError, match="Python"):
        spy_on_process(5, tmp_path / "stacks", seconds=60.0, hz=10)


@pytest.mark.skipif(sys.platform == "win32", reason="the fake is a shell script")
def test_what_an_earlier_look_left_is_not_taken_for_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, tmp_path, "#!/bin/sh\nexit 0")
    (tmp_path / "stacks").write_text("a 1")
    with pytest.raises(PerfkitError, match="process 5"):
        spy_on_process(5, tmp_path / "stacks", seconds=60.0, hz=10)


@pytest.mark.skipif(sys.platform == "win32", reason="the fake is a shell script")
def test_a_ctrl_c_ends_the_look_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, tmp_path, OUTPUT + 'echo "a 1" > "$out"')
    communicate, pressed = subprocess.Popen.communicate, []

    def interrupted(process: subprocess.Popen[str], timeout: float) -> tuple[str, str]:
        if not pressed:
            pressed.append(timeout)
            raise KeyboardInterrupt
        return communicate(process, timeout=timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    seen = spy_on_process(5, tmp_path / "stacks", seconds=60.0, hz=10)
    assert (seen.text, seen.interrupted) == ("a 1\n", True)


def test_no_such_process() -> None:
    with pytest.raises(UsageError, match="no running process 2147483647; `ps aux"):
        find_process(2**31 - 1)
