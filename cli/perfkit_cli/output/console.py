"""Makes consoles of one width: the terminal's, and a fixed one where output goes elsewhere."""

import os

from rich.console import Console

PLAIN_WIDTH = 100


def make_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """A console on standard output or standard error; a `quiet` one prints nothing."""
    console = Console(stderr=stderr, quiet=quiet)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PLAIN_WIDTH
    return console
