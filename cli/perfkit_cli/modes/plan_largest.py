"""`perfkit plan --max batch_size`: plans the largest batch or sequence of each variant that fits."""

from typing import TYPE_CHECKING, Any

import click

from perfkit.core.errors import UsageError
from perfkit_cli.modes.plan_offers import build_plan_request, resolve_target
from perfkit_cli.options.bench_request import refuse_given
from perfkit_cli.options.command_line import get_command_line

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.analysis.model.plan import Plan, PlannedSize

_FITS = {True: "fits", False: "does not fit", None: "unknown"}


def plan_largest_options(ctx: click.Context, options: dict[str, Any], console: "Console") -> "Plan":
    """The plan of each variant at the largest size that fits; the console shows each size as it is planned."""
    from perfkit.devices.catalog.catalog import resolve_entry
    from perfkit.plan.plan_largest import plan_largest
    from perfkit.plan.rental.prices import load_prices

    refuse_given(ctx, ("seq_lengths", "packing", "length_shares"), "--max is for sequences of one length")
    refuse_given(ctx, ("eval_batch_size", "eval_batches"), "--max is for training steps")
    refuse_given(ctx, ("scaling",), "--max is for the batch of one rank")
    numbers = options["counts"] or options["world_sizes"]
    if options["counts"]:
        refuse_given(ctx, ("world_sizes",), "--gpus is the number of GPUs")
    if len(numbers) > 1:
        raise UsageError("--max takes one number of GPUs or ranks")
    target = resolve_target(options)
    gpus = () if options["gpu"] is None else (resolve_entry(options["gpu"]),)
    with console.status("planning") as status:

        def report(name: str, planned: "PlannedSize") -> None:
            status.update(f"{name}: {options['max']} {planned.size} {_FITS[planned.fits]}")

        return plan_largest(
            build_plan_request(options, numbers),
            target,
            options["max"],
            margin=options["margin"],
            most=options["cap"],
            command=get_command_line(),
            prices=load_prices(options["prices"], options["price"], gpus) if gpus else {},
            run_units=options["tokens"],
            progress=report,
        )
