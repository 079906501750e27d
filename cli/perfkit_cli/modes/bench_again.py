"""`perfkit bench --into` and `--resume`: adds to or continues an existing suite."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from perfkit.core.errors import UsageError
from perfkit_cli.options.bench_request import (
    ASKED,
    KEPT,
    apply_options,
    choose_variants,
    get_given_options,
    refuse_energy,
    refuse_given,
    resolve_ceilings,
)
from perfkit_cli.options.command_line import get_command_line

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.suites.resume import OpenedSuite


def prepare_existing_suite(ctx: click.Context, console: "Console") -> tuple[Path, Callable[[], None]]:
    """The suite's folder, and a function that measures the remaining or added runs; an invalid request is a
    `UsageError`."""
    from perfkit.devices.machine.device_choice import find_device
    from perfkit.measure.launch.launcher_table import STARTS_HERE
    from perfkit.measure.resolve_request import find_requested_ncu
    from perfkit.store.lock import lock_folder
    from perfkit.suites.resume import measure_remaining, read_first_request, read_last_request
    from perfkit_cli.modes.planning import resolve_auto_params
    from perfkit_cli.output.progress import show_progress

    options = ctx.params
    resumed: bool = options["resume"] is not None
    folder: Path = options["resume"] or options["into"]
    if resumed:
        own = [name for name in ASKED if name not in KEPT]
        refuse_given(
            ctx, (*own, "technique", "combine", "out", "into", "retry"), "--resume takes its options from the suite"
        )
    else:
        refuse_given(ctx, ("out",), "--into writes into the suite's own folder")
        if options["retry"] is None and not get_given_options(ctx, ("technique",)):
            raise UsageError("--into adds to a suite; also give --technique, or --retry failed")
    refuse_given(ctx, ("plan",), f"to plan the variants of an existing suite, use perfkit plan --into {folder}")
    stored = (read_last_request if resumed else read_first_request)(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} is not writable; copy the suite to a writable folder, and name the copy")
    stored = apply_options(stored, get_given_options(ctx, KEPT))
    ncu = find_requested_ncu(stored)

    def work() -> None:
        with lock_folder(folder):
            opened = _open_suite(ctx, folder, console, resumed=resumed)
            for name in opened.left_out:
                console.out(f"left out: {name}: it failed in this suite; repeat it with --retry failed")
            name = find_device(stored.device, here=stored.launcher in STARTS_HERE).name
            whole = msgspec.structs.replace(opened.whole, calibrate=stored.calibrate)
            ceilings = resolve_ceilings(whole, name, console=console)
            with show_progress(console) as progress:
                measure_remaining(
                    opened,
                    command=get_command_line(),
                    ceilings=ceilings,
                    progress=progress,
                    ncu=ncu,
                    price=options["price"],
                    find=resolve_auto_params,
                )

    return folder, work


def _open_suite(ctx: click.Context, folder: Path, console: "Console", *, resumed: bool) -> "OpenedSuite":
    from perfkit.measure.schedule import check_launcher
    from perfkit.suites.resume import open_to_extend, open_to_resume, read_first_request

    if resumed:
        return open_to_resume(folder)
    request = apply_options(read_first_request(folder), get_given_options(ctx))
    refuse_energy(request)
    check_launcher(request)
    added = choose_variants(ctx.params, request, console) if get_given_options(ctx, ("technique",)) else ()
    return open_to_extend(
        folder, msgspec.structs.replace(request, variants=added), failed=ctx.params["retry"] is not None
    )
