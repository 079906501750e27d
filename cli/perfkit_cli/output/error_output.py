"""Errors of a command as text on stderr, each with its id, and as JSON on stdout where `--json` is given."""

from collections.abc import Sequence

import click
import msgspec

from perfkit.core.errors import PerfkitError, RunFormatError, TerminatedError, UsageError
from perfkit.core.spec import Struct

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNDECIDED = 3  # nothing could be compared, or no comparison was decided
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
EXIT_TERMINATED = 143  # 128 + SIGTERM
OPTION_ERROR = "usage.option"
SYSTEM_ERROR = "system.failed"


class ErrorContent(Struct):
    """An error: its stable id, and what was given, what was expected and what to do."""

    id: str
    message: str


class ErrorOutput(Struct):
    """The output of a command that fails, with `--json`."""

    error: ErrorContent


class ErrorMessage(click.ClickException):
    """An error for the user; the id ends its first line: `Error: unknown command 'benhc' [usage.unknown_command]`."""

    def __init__(self, message: str, id: str, exit_code: int) -> None:
        super().__init__(message)
        self.id = id
        self.exit_code = exit_code  # type: ignore[misc]  # click has it on the class

    def format_message(self) -> str:
        return append_id(self.message, self.id)


def append_id(message: str, id: str) -> str:
    """The message with the id at the end of its first line."""
    first, *rest = message.split("\n")
    return "\n".join([f"{first} [{id}]", *rest])


def make_message(error: PerfkitError | OSError) -> ErrorMessage:
    """Make the message that ends a command for an error."""
    if isinstance(error, PerfkitError):
        code = EXIT_USAGE if isinstance(error, UsageError | RunFormatError) else EXIT_FAILED
        return ErrorMessage(str(error), error.id, code)
    where = f"{error.filename}: " if error.filename else ""
    return ErrorMessage(f"{where}{error.strerror or error}", SYSTEM_ERROR, EXIT_FAILED)


def is_json_wanted(command: click.Command | None, arguments: Sequence[str]) -> bool:
    """True where the arguments ask a command for JSON that has such an option."""
    has_option = command is not None and any("--json" in parameter.opts for parameter in command.params)
    return has_option and "--json" in arguments[: arguments.index("--") if "--" in arguments else None]


def print_error_json(error: click.ClickException) -> None:
    """`{"error": {"id": ..., "message": ...}}` on stdout."""
    id = error.id if isinstance(error, ErrorMessage) else OPTION_ERROR
    click.echo(format_error_json(id, error.message))


def format_error_json(id: str, message: str) -> str:
    """An error as an object."""
    output = ErrorOutput(error=ErrorContent(id=id, message=message))
    return msgspec.json.format(msgspec.json.encode(output), indent=1).decode()


def describe_interrupt(error: KeyboardInterrupt) -> tuple[str, int]:
    """The word for the signal that ended a command, and its exit code."""
    return ("terminated", EXIT_TERMINATED) if isinstance(error, TerminatedError) else ("interrupted", EXIT_INTERRUPTED)
