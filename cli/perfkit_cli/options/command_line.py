"""The command line that was given, as records and reports show it."""

import sys

from perfkit.core.texts.redact import format_command


def get_command_line() -> str:
    """This command line without its secrets: reports are shared."""
    return format_command(["perfkit", *sys.argv[1:]])
