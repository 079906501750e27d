"""`--trust`: runs the function that a suite's folder names as its workload."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def add_trust_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--trust`, for commands that build the workload of a suite's folder."""
    return click.option(
        "--trust",
        is_flag=True,
        help="Run the workload that the suite names, a function in a file below the current folder, though you have "
        "not named it on this machine. Perfkit's own workloads need no trust.",
    )(command)


def trust_suite(folder: Path) -> None:
    """Trust the functions that the suite names; a `UsageError` if a file below the current folder defines none."""
    from perfkit.store.suite_reader import read_suite_file
    from perfkit.workloads.workload_table import is_user_function
    from perfkit.workloads.workload_trust import trust_workload

    for session in read_suite_file(folder).sessions:
        if session.request is not None and is_user_function(session.request.workload):
            trust_workload(session.request.workload, folder)
