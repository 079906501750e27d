"""The errors perfkit raises on purpose. Only the command line turns them into text and an exit code."""

import difflib
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import NoReturn


class PerfkitError(Exception):
    """Anything perfkit reports to its user; the message says what was given, what was expected, what to do.

    `id` names the kind of error and is stable, unlike the message: `subject.what`. Each class has one; where one class
    has several causes, a finer one is given where it is raised.
    """

    id: str = "error.failed"

    def __init__(self, *args: object, id: str = "") -> None:
        super().__init__(*args)
        if id:
            self.id = id


class UsageError(PerfkitError):
    """The request itself cannot be carried out as written (exit code 2)."""

    id = "usage.wrong"


class UnknownParameterError(UsageError):
    """A parameter that what it is given to does not have."""

    id = "usage.unknown_parameter"

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message)
        self.parameter = parameter


class RunFormatError(PerfkitError):
    """A file of a run directory cannot be read; the message names the file and the field."""

    id = "file.unreadable"


class NewerFormatError(RunFormatError):
    """A newer perfkit wrote the file: it is not damaged, and not to be replaced."""

    id = "file.newer_format"


class OlderFormatError(RunFormatError):
    """An earlier perfkit wrote the file, in a format that this one does not read."""

    id = "file.older_format"


class UnavailableError(PerfkitError):
    """Something exists but cannot act here; the message is the reason shown beside `skipped`."""

    id = "skip.unfit"


class TerminatedError(KeyboardInterrupt):
    """SIGTERM, in the main thread: what ends in order at Ctrl-C ends so for it too, and says what it was."""


def raise_terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    """A signal handler."""
    raise TerminatedError


def make_unknown_name_error(kind: str, given: str, known: Iterable[str]) -> UsageError:
    """A `UsageError` for a name that is not known, naming the nearest valid ones."""
    names = sorted(known)
    longer = [name for name in names if given and name.startswith(given)]  # `h100` is no typo of `mi100`
    near = longer or difflib.get_close_matches(given, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(repr(name) for name in near)}?" if near else f"choose from: {', '.join(names)}"
    return UsageError(f"unknown {kind} {given!r}: {hint}", id=f"usage.unknown_{kind.split()[0].lower()}")


def walk_exception_chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and what is behind it: causes, contexts and the members of groups, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        raised = waiting.pop()
        if raised is None or id(raised) in seen:
            continue
        seen.add(id(raised))
        yield raised
        waiting += [raised.__cause__, raised.__context__]
        if isinstance(raised, BaseExceptionGroup):
            waiting += raised.exceptions
