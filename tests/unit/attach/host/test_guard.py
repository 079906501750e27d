"""What fails behind the guard is logged once and never reaches the program."""

import logging
import os

import pytest

from perfkit.attach.host.guard import Guard, describe_error
from perfkit.core.errors import PerfkitError


class Switch:
    """Counts how often perfkit was switched off."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls = 0
        self._error = error

    def __call__(self) -> None:
        self.calls += 1
        if self._error is not None:
            raise self._error


def fail(message: str) -> None:
    raise ValueError(message)


def test_arguments_are_passed_on() -> None:
    switch = Switch()
    got: list[tuple[object, ...]] = []
    guard = Guard(switch)
    guard(lambda *args: got.append(args), 1, "two")
    assert (got, switch.calls, guard.failure) == ([(1, "two")], 0, None)


def test_the_first_failure_is_logged_once_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    switch = Switch()
    got: list[object] = []
    guard = Guard(switch)
    guard(fail, "broken")
    guard(fail, "again")
    guard(got.append, "never")
    [line] = caplog.records
    assert (line.name, line.levelno) == ("perfkit", logging.WARNING)
    assert line.getMessage().startswith("perfkit ")
    assert line.getMessage().endswith("ValueError: broken")
    assert line.exc_info[1] is guard.failure
    assert "in fail" in caplog.text
    assert (switch.calls, got) == (1, [])


@pytest.mark.parametrize("error", [OSError(28, "No space left on device", "x"), PerfkitError("said plainly")])
def test_what_is_said_plainly_is_a_line(caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    def fail_plainly() -> None:
        raise error

    Guard(fail_plainly)(fail_plainly)  # switching off meets the same
    [line] = caplog.records
    assert line.getMessage().startswith("perfkit ")
    assert f"{type(error).__name__}: " in line.getMessage()
    assert line.exc_info is None


def test_it_says_whose_failure_it_was(caplog: pytest.LogCaptureFixture) -> None:
    Guard(Switch(), "the logger Board")(fail, "broken")
    assert caplog.records[0].getMessage().startswith("the logger Board ")


def test_silent_also_when_switching_off_fails(caplog: pytest.LogCaptureFixture) -> None:
    switch = Switch(RuntimeError("cannot"))
    guard = Guard(switch)
    guard(fail, "broken")
    guard(fail, "again")
    first, second = caplog.records
    assert "ValueError: broken" in first.getMessage()
    assert "hooks" in second.getMessage()
    assert second.getMessage().endswith("RuntimeError: cannot")
    assert switch.calls == 1


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), PerfkitError("x: cannot be written")])
def test_a_full_disk_is_a_line_also_when_switching_off_fails(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    Guard(Switch(error))(fail, "broken")
    _, second = caplog.records
    assert second.exc_info is None


def test_what_fails_while_it_is_switched_off_is_not_another_failure(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard(lambda: guard(fail, "within"))
    guard(fail, "broken")
    assert len(caplog.records) == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_what_is_meant_for_the_program_passes(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    switch = Switch()
    got: list[object] = []
    guard = Guard(switch)

    def interrupted() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        guard(interrupted)
    guard(got.append, 1)
    assert caught.value is error
    assert (switch.calls, caplog.records, got) == (0, [], [1])


def test_nothing_is_called_in_a_forked_child() -> None:
    reading, writing = os.pipe()
    guard = Guard(lambda: os.write(writing, b"off"))  # type: ignore[arg-type]
    child = os.fork()
    if not child:
        guard(os.write, writing, b"called")
        guard(fail, "broken")
        os._exit(0 if guard.failure is None else 1)
    _, status = os.waitpid(child, 0)
    os.close(writing)
    assert os.read(reading, 100) == b""
    assert os.waitstatus_to_exitcode(status) == 0
    os.close(reading)


def test_a_description_is_one_line() -> None:
    assert describe_error(ValueError("two\n  lines")) == "ValueError: two lines"
    assert describe_error(KeyError()) == "KeyError"
