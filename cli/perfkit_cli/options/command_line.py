"""The command line that was given, as records and reports show it."""

import shlex
import sys


def get_command_line() -> str:
    """This command line, as reports show it."""
    return shlex.join(["perfkit", *sys.argv[1:]])
