"""`perfkit plan --learn`: learns a device's op times from measured steps, stores them, and prints them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.console import Console

from perfkit.core.errors import PerfkitError, UsageError
from perfkit_cli.output.json_output import print_json

if TYPE_CHECKING:
    from perfkit.plan.timing.efficiencies import MeasuredDevice
    from perfkit.plan.timing.efficiency_store import LearnedDevice


def learn_and_show(paths: Sequence[str], gpu: str | None, console: Console, *, as_json: bool) -> None:
    """Learn from suites and traces, update the stored times of each device, and print the result.

    Sources that yield nothing are named with the reason; it is an error if none yields anything.
    """
    from perfkit.devices.catalog.catalog import resolve_entry
    from perfkit.plan.timing.device_efficiencies import make_measured_devices
    from perfkit.plan.timing.efficiency_store import get_device_path, store_learned
    from perfkit.plan.timing.learn import find_sources, learn_efficiencies
    from perfkit_cli.output.listing import align_columns

    entry = None if gpu is None else resolve_entry(gpu)
    kept: dict[str, LearnedDevice] = {}
    with console.status("learning") as status:
        for source in find_sources(paths):
            status.update(f"learning from {source}")
            try:
                learned = learn_efficiencies(source, entry, _warn_left_out)
            except PerfkitError as error:
                _warn_left_out(str(error))
                continue
            kept |= {efficiencies.device: store_learned(efficiencies) for efficiencies in learned}
    if not kept:
        raise UsageError("nothing could be learned; the reasons are above")
    if as_json:
        print_json({"devices": [_list_learned(device, known) for device, known in kept.items()]})
        return
    rows = [_build_row(efficiencies) for known in kept.values() for efficiencies in make_measured_devices(known)]
    head = ("device", "programs", "ops", "classes", "fit", "other kernels")
    for line in align_columns([head, *rows]):
        click.echo(line)
    for device in kept:
        click.echo(f"saved to {get_device_path(device)}")


def _warn_left_out(reason: str) -> None:
    click.echo(f"left out: {reason}", err=True)


def _list_learned(device: str, known: "LearnedDevice") -> dict[str, object]:
    from perfkit.plan.timing.device_efficiencies import make_measured_devices
    from perfkit.plan.timing.efficiency_store import get_device_path

    programs = sorted({program.name for measured in make_measured_devices(known) for program in measured.programs})
    return {"device": device, "programs": programs, "file": str(get_device_path(device))}


def _build_row(measured: "MeasuredDevice") -> tuple[str, ...]:
    from math import exp, sqrt

    threads = measured.roofs.threads
    samples = [sample for program in measured.programs for sample in program.samples]
    errors = measured.left_out
    left_out = exp(sqrt(sum(error**2 for error in errors) / len(errors))) if errors else None
    return (
        measured.roofs.device_name + (f", {threads} thread{'' if threads == 1 else 's'}" if threads else ""),
        ", ".join(program.name for program in measured.programs),
        str(len({sample.op for sample in samples})),
        str(len({sample.op_class for sample in samples})),
        f"x{measured.compute_fit_error():.2f}",
        "" if left_out is None else f"x{left_out:.2f}",
    )
