"""Options of plans for those who rent GPUs: which, how many, their prices, and the length of a run."""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def _parse_counts_option(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:  # noqa: ARG001
    """Numbers of GPUs; none where nothing is given."""
    if value is None:
        return ()
    from perfkit.plan.rental.gpu_counts import parse_counts

    return parse_counts(value)


def _parse_units_option(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:  # noqa: ARG001
    """A number of tokens; None where nothing is given."""
    if value is None:
        return None
    from perfkit.plan.rental.run_length import parse_run_units

    return parse_run_units(value, param.opts[-1])


_OPTIONS = (
    click.option(
        "--gpu",
        metavar="NAME[,NAME...]|all",
        help="GPU to plan for, such as h200; see perfkit devices. Several are compared (h100-80g,a100-80g,l40s), and "
        "the forms of a model that differ in memory (h100).",
    ),
    click.option(
        "--gpus",
        "counts",
        metavar="N|A..B",
        callback=_parse_counts_option,
        help="Number of GPUs; 1..64 finds the fewest that fit and the cheapest.",
    ),
    click.option(
        "--price",
        "price",
        multiple=True,
        metavar="[NAME=]AMOUNT/h",
        help="Hourly price of a GPU, such as h100=2.49/h or h100=2.49USD/h; repeatable.",
    ),
    click.option(
        "--prices",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help='Prices by GPU, {"h100-sxm": "2.49EUR/h"}.  [default: prices.json, if present]',
    ),
    click.option(
        "--tokens", metavar="N", callback=_parse_units_option, help="Tokens of a run, such as 20B: its time and cost."
    ),
    click.option(
        "--seq-lengths",
        metavar="LENGTH:SHARE,...",
        help="Steps of several sequence lengths, such as 512:0.7,4096:0.3.",
    ),
    click.option(
        "--length-shares",
        type=click.Choice(["steps", "sequences"]),
        default="steps",
        show_default=True,
        help="What the shares of --seq-lengths count: steps, or sequences, of which a batch is padded to its longest.",
    ),
    click.option(
        "--packing",
        metavar="TOKENS",
        type=click.IntRange(min=1),
        help="Pack the sequences of --seq-lengths into rows of so many tokens, and compare with padding.",
    ),
)


def add_rental_options(command: F) -> F:
    """Add these options to `command`, in this order."""
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)
