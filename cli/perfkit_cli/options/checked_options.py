"""The options of `perfkit check` and `perfkit bisect`: what is trained, and where."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from perfkit.devices.machine.device_choice import DEVICES
from perfkit_cli.options.option_values import require_one_of

Command = TypeVar("Command", bound=Callable[..., Any])

_CASE = (
    click.option(
        "-w", "--workload", metavar="NAME[:KEY=VALUE]", help="Workload to train.  [default: the configured cases]"
    ),
    click.option("-t", "--technique", metavar="LIST", help="Variants to check.  [default: baseline]"),
)
_PLACE = (
    click.option(
        "--device",
        metavar=f"[{'|'.join(DEVICES)}]",
        callback=require_one_of("device", DEVICES),
        help="Device to train on.  [default: as configured, auto]",
    ),
    click.option("--threads", metavar="N", type=click.IntRange(min=1), help="CPU threads per rank."),
)


def add_case_options(command: Command) -> Command:
    """Add `--workload` and `--technique`, which replace the configured cases."""
    for option in reversed(_CASE):
        command = option(command)
    return command


def add_place_options(command: Command) -> Command:
    """Add `--device` and `--threads`."""
    for option in reversed(_PLACE):
        command = option(command)
    return command
