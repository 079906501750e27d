"""`perfkit devices`: lists the GPUs with known datasheet peaks."""

from collections.abc import Sequence

import click

from perfkit.core.spec import Struct
from perfkit.devices.catalog.catalog import CatalogEntry, build_datasheet_ceilings, load_catalog
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingLevel
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.output.json_output import print_json

EXAMPLES = """\b
Examples:
  perfkit devices
  perfkit devices h100                     only ids or names that contain this
  perfkit analyze trace.json.gz --device h100-sxm
\b
Where one device is meant, a model such as h100 is its fastest form; h100-94g is the one with that memory.
\b
Rates are dense, with fp32 accumulation; links are per direction. --json has every figure with its source.
\b
Exit codes: 0 done, 2 no such device.
"""


class ListedDevice(Struct):
    """A device as `--json` prints it."""

    id: str
    names: tuple[str, ...]
    ceilings: tuple[Ceiling, ...]
    note: str


class DeviceList(Struct):
    """The output of `perfkit devices --json`."""

    devices: tuple[ListedDevice, ...]


@click.command(epilog=EXAMPLES, short_help="List the GPUs with known datasheet peaks.")
@click.argument("text", metavar="[TEXT]", default="")
@add_json_option("every figure with its source")
def command(text: str, as_json: bool) -> None:
    """List the GPUs with known datasheet peaks, by the id that --device takes."""
    from perfkit.core.errors import UsageError
    from perfkit_cli.output.listing import align_columns

    wanted = text.lower()
    entries = [entry for entry in load_catalog().devices if wanted in " ".join((entry.id, *entry.names)).lower()]
    if not entries:
        raise UsageError(f"no device has {text!r} in its id or name; `perfkit devices` lists all")
    if as_json:
        devices = [
            ListedDevice(id=entry.id, names=entry.names, ceilings=build_datasheet_ceilings(entry), note=entry.note)
            for entry in entries
        ]
        print_json(DeviceList(devices=tuple(devices)))
        return
    for line in align_columns([_build_header(entries), *map(_build_row, entries)]):
        click.echo(line)


def _build_header(entries: Sequence[CatalogEntry]) -> tuple[str, ...]:
    """The header; units are named for all listed vendors."""
    from perfkit.devices.catalog.unit_names import get_unit_name

    def units(level: CeilingLevel) -> str:
        return " / ".join(dict.fromkeys(get_unit_name(level, entry.names[0]) for entry in entries))

    rates = (f"16-bit {units(CeilingLevel.MATRIX)}", f"fp32 {units(CeilingLevel.VECTOR)}")
    return ("id", *rates, "memory", "host link", "interconnect", "driver's name")


def _build_row(entry: CatalogEntry) -> tuple[str, ...]:
    from perfkit.core.units import format_bandwidth, format_flop_rate

    known = {(ceiling.level, ceiling.dtype): ceiling.value for ceiling in build_datasheet_ceilings(entry)}

    def rate(*wanted: tuple[CeilingLevel, str | None]) -> str:
        value = next((known[key] for key in wanted if key in known), None)
        if value is None:
            return "-"
        return format_flop_rate(value) if wanted[0][1] is not None else format_bandwidth(value)

    return (
        entry.id,
        rate((CeilingLevel.MATRIX, "bf16"), (CeilingLevel.MATRIX, "fp16")),
        rate((CeilingLevel.VECTOR, "fp32")),
        rate((CeilingLevel.MEMORY, None)),
        rate((CeilingLevel.HOST_LINK, None)),
        rate((CeilingLevel.INTERCONNECT, None)),
        entry.names[0],
    )
