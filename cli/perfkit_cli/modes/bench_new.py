"""`perfkit bench` without `--into` and `--resume`: measures a suite in a new folder."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from perfkit.core.errors import UsageError
from perfkit_cli.options.bench_request import (
    TAKEN,
    apply_options,
    choose_variants,
    refuse_energy,
    resolve_ceilings,
)
from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import refuse_impossible

if TYPE_CHECKING:
    from rich.console import Console


def prepare_new_suite(ctx: click.Context, folder: Path, console: "Console") -> Callable[[], None]:
    """A function that measures a suite in a new folder; an invalid request is a `UsageError` before."""
    from perfkit.devices.machine.device_choice import find_device
    from perfkit.measure.bench import run_bench
    from perfkit.measure.launch.launcher_table import STARTS_HERE
    from perfkit.measure.output_dir import refuse_occupied
    from perfkit.measure.rank.limits import check_limits, check_sampling
    from perfkit.measure.resolve_request import find_requested_ncu, resolve_request
    from perfkit.measure.schedule import check_launcher
    from perfkit.suites.new_request import make_request
    from perfkit_cli.modes.planning import plan_bench, resolve_auto_params
    from perfkit_cli.output.progress import show_progress

    options = ctx.params
    if options["retry"] is not None:
        raise UsageError("--retry failed repeats runs of an existing suite; name it with --into FOLDER")
    if options["trust"]:
        raise UsageError("--trust is for the suite of --into or --resume; a workload that you name needs none")
    refuse_impossible(folder)
    refuse_occupied(folder)
    check_limits(options["timeout"], options["memory_limit"])
    check_sampling(options["rounds"], options["precision"], options["budget"])
    target = find_device(options["device"], here=options["launcher"] in STARTS_HERE)
    sizes = options["batch_size"], options["seq_len"], options["accumulate"]
    request = make_request(options["workload"], target, *sizes)
    request = apply_options(request, {name: options[name] for name in TAKEN})
    request = resolve_request(request)
    refuse_energy(request)
    ncu = find_requested_ncu(request)
    check_launcher(request)
    request = msgspec.structs.replace(request, variants=choose_variants(options, request, console))

    def measure() -> None:
        if options["plan"]:
            plan_bench(folder, request, target.name, console)
        ceilings = resolve_ceilings(request, target.name, console=console)
        with show_progress(console) as progress:
            run_bench(
                request,
                folder,
                command=get_command_line(),
                ceilings=ceilings,
                progress=progress,
                ncu=ncu,
                price=options["price"],
                find=resolve_auto_params,
            )

    return measure
