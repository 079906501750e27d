"""Prints the one JSON object of a command with `--json`."""

import click
import msgspec


def print_json(value: msgspec.Struct | dict[str, object]) -> None:
    """Print a struct or a mapping on standard output, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n", nl=False)
