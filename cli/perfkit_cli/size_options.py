"""Options that say in what precision, on how many ranks and with what sizes a workload is trained."""

from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import click

from perfkit_cli.values import one_of

DTYPES = ("fp32", "bf16", "fp16")
COUNT = click.IntRange(min=1)

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--dtype",
        default="fp32",
        show_default=True,
        metavar=f"[{'|'.join(DTYPES)}]",
        callback=one_of("dtype", DTYPES),
        help="Dtype of the parameters.",
    ),
    click.option(
        "--world-size",
        metavar="N",
        type=COUNT,
        help="Ranks of every run.  [default: 1, and as many as they need for techniques that need several]",
    ),
    click.option(
        "--batch-size",
        metavar="N",
        type=COUNT,
        help="Of one microbatch of one rank.  [default: the workload's]",
    ),
    click.option("--seq-len", metavar="N", type=COUNT, help="Tokens in a sequence.  [default: the workload's]"),
    click.option("--accumulate", default=1, show_default=True, metavar="N", type=COUNT, help="Microbatches per step."),
)


def size_options(command: F) -> F:
    """`command` with these options, in this order."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), command)
