"""`perfkit calibrate`: measures this machine's ceilings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from perfkit.core.errors import UsageError
from perfkit.core.spec import Struct
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.ceilings.ceiling import DeviceCeilings, LinkRate
from perfkit.devices.machine.device_choice import AUTO, CALIBRATED
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.option_values import require_one_of
from perfkit_cli.output.json_output import print_json

if TYPE_CHECKING:
    from perfkit.devices.machine.device_choice import ChosenDevice

_PAIR = 2  # ranks whose links a calibration of the CPU includes

EXAMPLES = """\b
Examples:
  perfkit calibrate
  perfkit calibrate --device cpu --threads 1,2 --force
  perfkit calibrate --world-size 4         how fast are collectives between 4 ranks?
\b
Exit codes: 0 done, 1 failed, 2 invalid request, 130 interrupted.
"""


class DiskRates(Struct):
    """The speed of offloading to files, through the page cache: seconds per file, and bytes per second."""

    mount: str
    write_start_s: float
    write_bytes_per_s: float
    read_start_s: float
    read_bytes_per_s: float


class Calibration(Struct):
    """The output of `perfkit calibrate --json`.

    `ceilings` are those of the device, None where only links were measured; `links` are times of collectives, `disk`
    the speed of offloading to files.
    """

    ceilings: DeviceCeilings | None = None
    links: tuple[LinkRate, ...] = ()
    disk: DiskRates | None = None


@click.command(epilog=EXAMPLES, short_help="Measure this machine's ceilings.")
@click.option(
    "--device",
    default="auto",
    show_default=True,
    metavar=f"[{'|'.join((AUTO, *CALIBRATED))}]",
    callback=require_one_of("device", (AUTO, *CALIBRATED)),
    help="Device to measure. auto: the GPU if available, else the CPU.",
)
@click.option(
    "--threads", metavar="LIST", help="CPU thread counts to measure, such as 1,2.  [default: 1 and all cores]"
)
@click.option(
    "--world-size",
    type=click.IntRange(min=2),
    metavar="N",
    help="Measure collectives between N ranks on this machine instead.",
)
@click.option("--short", is_flag=True, help="Use fewer repeats, as `perfkit bench` does.")
@click.option("--force", is_flag=True, help="Measure again even if known; the best value is kept.")
@add_json_option("the ceilings and rates")
def command(device: str, threads: str | None, world_size: int | None, short: bool, force: bool, as_json: bool) -> None:
    """Measure this machine's ceilings: FLOP/s per dtype, memory bandwidths, collectives.

    They define the roofline. The result is stored for this machine and used by `perfkit bench`; the best
    value of all calibrations is kept. Keep the machine idle: figures that do not repeat are labeled low confidence, and
    disturbed ones are measured again next time.
    """
    from perfkit.core.optional_deps import require_torch
    from perfkit.devices.calibration.calibrate import parse_threads
    from perfkit.devices.lookup.ceiling_lookup import calibrate_machine, resolve_ceilings
    from perfkit.devices.machine.device_choice import find_device
    from perfkit.devices.machine.fingerprint import check_device
    from perfkit.devices.machine.machine import count_available_cores
    from perfkit_cli.output.ceilings import build_ceilings_table
    from perfkit_cli.output.console import make_console
    from perfkit_cli.output.live_lines import show_lines

    require_torch("calibrate")
    target = find_device(device)
    check_device(target.kind)
    if world_size is not None:
        if threads:
            raise UsageError(
                "--threads measures ceilings, but --world-size times ranks with one thread each; use only one",
                id="usage.conflict",
            )
        links = _calibrate_links(target, world_size, short=short, force=force)
        if as_json:
            print_json(Calibration(links=links))
        else:
            _show_links(links, world_size)
        return
    counts: tuple[int, ...] = ()
    if is_cpu(target.kind):
        counts = parse_threads(threads) if threads else tuple(sorted({1, count_available_cores()}))
    missing = _find_missing_threads(target.kind, target.name, counts, short=short, force=force)
    if missing is not None:
        with show_lines(make_console(stderr=True)) as tell:
            calibrate_machine(target.kind, missing, short=short, progress=tell, device_name=target.name)
    known = resolve_ceilings(target.kind, target.name, counts, calibrate=False)
    links, disk = (), None
    extended = is_cpu(target.kind) and not short
    if extended:
        if count_available_cores() > 1:
            links = _calibrate_links(target, _PAIR, short=True, force=force)
        disk = _calibrate_disk(force)
    if as_json:
        print_json(Calibration(ceilings=known, links=links, disk=disk))
        return
    console = make_console()
    console.print(build_ceilings_table(known, console.width))
    for note in known.notes:
        console.print(f"note: {note}", markup=False, highlight=False)
    if extended:
        if links:
            _show_links(links, _PAIR)
        console.print(_describe_disk(disk), markup=False, highlight=False)


def _calibrate_links(target: "ChosenDevice", ranks: int, *, short: bool, force: bool) -> tuple[LinkRate, ...]:
    """The rates of collectives between `ranks` ranks over each kind of link, measured if unknown."""
    from perfkit.devices.links.link_calibration import (
        find_groups,
        is_measurement_missing,
        load_link_rates,
        measure_links,
    )
    from perfkit.devices.machine.visible_gpus import explain_missing_gpus
    from perfkit_cli.output.console import make_console
    from perfkit_cli.output.live_lines import show_lines

    if not is_cpu(target.kind) and (why := explain_missing_gpus(ranks, target.visible)):
        raise UsageError(f"--world-size {ranks}: {why}")
    rates = load_link_rates(target.kind, target.name)
    kinds = [group.link for group in find_groups(target.kind, ranks)]
    if force or is_measurement_missing(rates, ranks, short=short, links=kinds):
        with show_lines(make_console(stderr=True)) as tell:
            rates = measure_links(target.kind, target.name, ranks, short=short, progress=tell)
    return tuple(rate for kind in kinds for rate in rates if rate.ranks == ranks and rate.link == kind)


def _show_links(rates: Sequence[LinkRate], ranks: int) -> None:
    """A table for each kind of link."""
    from perfkit_cli.output.ceilings import build_links_table, describe_links
    from perfkit_cli.output.console import make_console

    console = make_console()
    for kind in dict.fromkeys(rate.link for rate in rates):
        console.print(build_links_table([rate for rate in rates if rate.link == kind], ranks))
    for note in describe_links(rates):
        console.print(f"note: {note}", markup=False, highlight=False)


def _calibrate_disk(force: bool) -> DiskRates | None:
    """The speed of offloading to files, which `perfkit plan` uses, measured if unknown; None where it is in memory."""
    from perfkit.plan.target.disk import load_disk, measure_disk

    known = (None if force else load_disk()) or measure_disk()
    if known is None:
        return None
    return DiskRates(
        mount=known.mount,
        write_start_s=known.write.start_s,
        write_bytes_per_s=known.write.bytes_per_s,
        read_start_s=known.read.start_s,
        read_bytes_per_s=known.read.bytes_per_s,
    )


def _describe_disk(known: DiskRates | None) -> str:
    from perfkit.core.units import format_bandwidth, format_seconds

    if known is None:
        return "offload to disk: not measured, because the temporary folder (TMPDIR) is in memory"
    written, read = (
        f"{format_bandwidth(bytes_per_s)} plus {format_seconds(start_s)} per file"
        for bytes_per_s, start_s in (
            (known.write_bytes_per_s, known.write_start_s),
            (known.read_bytes_per_s, known.read_start_s),
        )
    )
    return f"offload to disk, {known.mount}: write {written}, read {read}, through the page cache"


def _find_missing_threads(
    device: str, name: str, threads: tuple[int, ...], *, short: bool, force: bool
) -> tuple[int, ...] | None:
    """The thread counts to measure, or None if all are known.

    A short calibration does not count where a full one is requested, nor does a disturbed or refuted one.
    """
    from perfkit.core.errors import RunFormatError
    from perfkit.devices.calibration import ceilings_cache
    from perfkit.devices.machine.fingerprint import build_fingerprint

    try:
        cached = None if force else ceilings_cache.load_ceilings(build_fingerprint(device, name))
    except RunFormatError:
        cached = None  # measuring again replaces a file that cannot be read
    known = (
        frozenset[int | None]()
        if cached is None
        else (cached.threads() if short else cached.full()) - cached.list_doubtful_threads()
    )
    if not is_cpu(device):
        return None if None in known else ()
    return tuple(count for count in threads if count not in known) or None
