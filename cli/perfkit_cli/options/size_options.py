"""Options for a workload's precision, number of ranks and sizes."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

import click

from perfkit.core.spec import SCALINGS
from perfkit_cli.options.option_values import parse_counts_option, require_one_of

DTYPES = ("fp32", "bf16", "fp16")
COUNT = click.IntRange(min=1)

F = TypeVar("F", bound=Callable[..., Any])

_DTYPE = click.option(
    "--dtype",
    default="fp32",
    show_default=True,
    metavar=f"[{'|'.join(DTYPES)}]",
    callback=require_one_of("dtype", DTYPES),
    help="Dtype of the parameters.",
)
_DEFAULT_RANKS = "[default: 1, or the minimum for the techniques]"
_RANKS = click.option("--world-size", metavar="N", type=COUNT, help=f"Ranks per run.  {_DEFAULT_RANKS}")
_NUMBERS_OF_RANKS = click.option(
    "--world-size",
    "world_sizes",
    metavar="N[,N...]",
    callback=parse_counts_option,
    help=f"Ranks per run; a list such as 1,2,8,64 measures scaling.  {_DEFAULT_RANKS}",
)
_SCALING = click.option(
    "--scaling",
    default=SCALINGS[0],
    show_default=True,
    metavar=f"[{'|'.join(SCALINGS)}]",
    callback=require_one_of("value of --scaling", SCALINGS),
    help="weak: fixed batch per rank. strong: fixed global batch (--batch-size), divided among ranks.",
)
_SIZES = (
    click.option(
        "--batch-size",
        metavar="N",
        type=COUNT,
        help="Samples per microbatch and rank.  [default: the workload's]",
    ),
    click.option("--seq-len", metavar="N", type=COUNT, help="Tokens per sequence.  [default: the workload's]"),
    click.option("--accumulate", default=1, show_default=True, metavar="N", type=COUNT, help="Microbatches per step."),
)


def add_size_options(command: F) -> F:
    """Add the options of sizes to `command`, in this order."""
    return _apply_options((_DTYPE, _RANKS, *_SIZES), command)


def add_scaling_options(command: F) -> F:
    """Add the options of sizes, with several numbers of ranks (`world_sizes`)."""
    return _apply_options((_DTYPE, _NUMBERS_OF_RANKS, _SCALING, *_SIZES), command)


def _apply_options(options: Sequence[Callable[[F], F]], command: F) -> F:
    return reduce(lambda decorated, option: option(decorated), reversed(options), command)
