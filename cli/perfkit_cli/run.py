"""`perfkit run`: runs a training script unchanged, and watches it."""

import os
import subprocess
import sys
from typing import Any

import click

from perfkit_cli.run_script.options import RunCommand, check_run_options, get_arguments


@click.pass_context
def _run(ctx: click.Context, /, **options: Any) -> None:
    """Become the process that runs the script, so that signals and exit codes are the script's own."""
    check_run_options(**options)
    command = [sys.executable, "-m", "perfkit.run", *get_arguments(ctx)]
    if os.name == "posix":
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(command[0], command)
    ctx.exit(_run_child(command))


def _run_child(command: list[str]) -> int:
    """Run `command` to its end, for systems on which a process cannot become another one. Ctrl-C reaches it, too."""
    with subprocess.Popen(command) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


command = RunCommand(callback=_run)
