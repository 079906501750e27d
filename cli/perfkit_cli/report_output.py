"""From a document to its report on disk and its summary on the terminal."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from perfkit.analysis.model.suite import Analysis
from perfkit.record import RunStatus
from perfkit.sanitize import escape_control_chars

if TYPE_CHECKING:
    from perfkit_reports.document.document import Document

PLAIN_WIDTH = 100


def write_and_show(
    document: "Document", folder: Path, *, static: bool = False, quiet: bool = False, verbose: bool = False
) -> None:
    """Write the report to `folder`, print its summary unless `quiet`, more of it if `verbose`, and where it is.

    A suite's main figures are always written, with `static` all that there are of anything.
    """
    from perfkit_reports.document.weight import Weight
    from perfkit_reports.render.report_files import write_document

    figures = Weight.DETAIL if static else Weight.BRIEF if document.kind == "suite" else None
    # A check that is drawn again is as strict as can be with what is inconclusive.
    paths = write_document(document, folder, figures=figures, unsure="failure")
    if not quiet:
        show_document(document, verbose=verbose)
    show_paths(paths)


def show_document(document: "Document", *, verbose: bool = False) -> None:
    """A report's summary on standard output."""
    from perfkit_reports.render.terminal import render

    render(document, make_console(), verbose=verbose)


def make_console() -> Console:
    """Standard output, in a width of its own where that is no terminal."""
    made = Console()
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = PLAIN_WIDTH
    return made


def show_tracebacks(analysis: Analysis) -> None:
    """What the user's own code raised, once where several variants failed in the same way, and who waited where."""
    from perfkit_reports import waits

    failed = [variant for variant in analysis.variants if variant.status == RunStatus.FAILED and variant.traceback]
    for traceback in dict.fromkeys(variant.traceback for variant in failed):
        names = ", ".join(variant.name for variant in failed if variant.traceback == traceback)
        click.echo(f"{names} failed:\n{escape_control_chars(traceback)}\n", err=True)
    for variant in analysis.variants:
        if told := [*waits.describe_waits(variant)]:
            click.echo(
                "\n".join((f"{variant.name}: where its ranks were:", *map(escape_control_chars, told), "")), err=True
            )


def show_paths(paths: list[Path]) -> None:
    """Where the report is: the HTML report, or everything written where there is none."""
    pages = [path for path in paths if path.suffix == ".html"]
    for path in pages or paths:
        click.echo(f"report: {path}")
