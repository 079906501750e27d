"""Tracebacks show the program's frames alone."""

import traceback
from types import CodeType

import pytest

from perfkit_cli.run_script import program_runner, step_function
from perfkit_cli.run_script.program_runner import strip_own_frames


def code(text: str, path: str) -> CodeType:
    return compile(text, path, "exec")


def names(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


def raised(outer: str) -> BaseException:
    """A script's error, through a function of `outer` that the script calls."""
    space: dict[str, object] = {}
    exec(code("def wrapper(function):\n    return function()", outer), space)
    exec(code("def fails():\n    raise ValueError('x')\ndef main():\n    wrapper(fails)", "train.py"), space)
    with pytest.raises(ValueError, match="x") as caught:
        space["main"]()  # type: ignore[operator]
    return caught.value


def test_frames_of_ours_go_wherever_they_are() -> None:
    error = raised(step_function.__file__)
    assert step_function.__file__ in names(error)
    strip_own_frames(error)
    assert names(error) == [__file__, "train.py", "train.py"]


def test_frames_of_others_stay() -> None:
    error = raised("library.py")
    before = names(error)
    strip_own_frames(error)
    assert names(error) == before


def test_exceptions_that_led_to_it_are_cleaned_too() -> None:
    cause, group = raised(program_runner.__file__), ExceptionGroup("several", [raised(program_runner.__file__)])  # type: ignore[list-item]
    error = RuntimeError("because")
    error.__cause__, error.__context__ = cause, group
    strip_own_frames(error)
    assert program_runner.__file__ not in names(cause) + names(group.exceptions[0])


def test_nothing_is_left_of_an_error_of_ours_alone() -> None:
    error = SyntaxError("in the script")
    space = {"error": error}
    with pytest.raises(SyntaxError):
        exec(code("raise error", program_runner.__file__), space)
    error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ else None
    strip_own_frames(error)
    assert error.__traceback__ is None
