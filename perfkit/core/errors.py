"""The errors perfkit raises on purpose. Only the command line turns them into text and an exit code."""

import difflib
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import NoReturn

from perfkit.core.error_kinds import UNKNOWN_NAME


class PerfkitError(Exception):
    """Anything perfkit reports to its user; the message says what was given, what was expected, what to do.

    `id` names the kind of error and is stable, unlike the message: `subject.what`. Each class has one; a class with
    several causes takes a finer one where it is raised.
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
    """An unknown parameter of a technique or workload."""

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
    """Something exists but cannot run here; the message is the reason shown with `skipped`."""

    id = "skip.unfit"


class TerminatedError(KeyboardInterrupt):
    """SIGTERM in the main thread: it ends a command in order, as Ctrl-C does, with its own exit code."""


def raise_terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Raise `TerminatedError`: a handler of SIGTERM."""
    raise TerminatedError


def make_unknown_name_error(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """Make a `UsageError` for an unknown name that proposes the nearest valid ones.

    The first word of `kind` ends its id, which `error_kinds.UNKNOWN_NAMES` lists.
    """
    names = sorted(known)
    longer = [other for other in names if name and other.startswith(name)]  # `h100` is not a typo of `mi100`
    near = longer or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {_join_alternatives(near)}?" if near else f"expected one of {', '.join(names)}"
    return UsageError(f"unknown {kind} {name!r}: {hint}", id=f"{UNKNOWN_NAME}{kind.split()[0].lower()}")


def _join_alternatives(names: list[str]) -> str:
    """`'a', 'b' or 'c'`."""
    *first, last = map(repr, names)
    return f"{', '.join(first)} or {last}" if first else last


def walk_exception_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its causes, its contexts and the members of groups, each once."""
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
