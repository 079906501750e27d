"""Options of plans for what a rank does beside training steps: evaluation and checkpoints."""

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from perfkit_cli.options.option_values import parse_memory_option
from perfkit_cli.options.size_options import COUNT

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--eval-batch-size",
        metavar="N",
        type=COUNT,
        help="Also plan an evaluation step of N samples per rank, without gradients.",
    ),
    click.option(
        "--eval-batches",
        metavar="N",
        type=COUNT,
        help="Evaluation batches whose logits the loop keeps on the device, as Transformers' Trainer does.",
    ),
    click.option(
        "--eval-accumulation-steps",
        metavar="N",
        type=COUNT,
        help="Batches after which the kept logits move to main memory.  [default: they stay on the device]",
    ),
    click.option(
        "--disk",
        metavar="SIZE",
        callback=parse_memory_option,
        help="Bytes per second that a rank writes of a checkpoint, such as 2GB; without it, the time is unknown.",
    ),
)


def add_phase_options(command: F) -> F:
    """Add these options to `command`, in this order."""
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)
