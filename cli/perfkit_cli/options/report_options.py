"""Options of commands that write a report: its folder, and its figures as images."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from perfkit_cli.options.option_values import require_images_option


def add_out_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--out`, the report's folder; `default` is shown."""
    return click.option(
        "--out",
        metavar="FOLDER",
        type=click.Path(path_type=Path, file_okay=False),
        help=f"Report folder.  [default: {default}]",
    )


def add_static_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--static`, refused where the package that draws images is missing."""
    return click.option(
        "--static",
        is_flag=True,
        callback=require_images_option,
        help="Also write the figures as PNG and SVG (perfkit[images]).",
    )(command)
