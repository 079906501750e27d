"""Writes a document's report to disk and its summary to the terminal."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfkit.analysis.model.suite import Analysis
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.sanitize import escape_control_chars
from perfkit_cli.output.console import make_console
from perfkit_cli.output.json_output import print_json

if TYPE_CHECKING:
    from perfkit_reports.document.document import Document


def write_and_show(
    document: "Document", folder: Path, *, static: bool = False, quiet: bool = False, verbose: bool = False
) -> None:
    """Write the report to `folder`; print its summary unless `quiet`, more if `verbose`, and the path.

    A suite's main figures are written wherever they can be drawn; `static` writes all figures.
    """
    from perfkit_reports.render.report_files import write_report

    paths = write_report(document, folder, static=static)
    if not quiet:
        show_document(document, verbose=verbose)
    show_paths(paths)


def write_and_print(
    document: "Document",
    folder: Path,
    *,
    as_json: bool,
    static: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Write the report to `folder`, and print the subject's JSON, or what `write_and_show` does."""
    if not as_json:
        write_and_show(document, folder, static=static, quiet=quiet, verbose=verbose)
        return
    from perfkit_reports.render.report_files import write_report

    write_report(document, folder, static=static)
    print_json(document.result)


def show_document(document: "Document", *, verbose: bool = False) -> None:
    """A report's summary on standard output."""
    from perfkit_reports.render.terminal import render

    render(document, make_console(), verbose=verbose)


def show_tracebacks(analysis: Analysis) -> None:
    """Prints the user code's tracebacks, once where several variants failed alike, and which ranks waited where."""
    from perfkit_reports import waits

    failed = [variant for variant in analysis.variants if variant.status == RunStatus.FAILED and variant.traceback]
    for traceback in dict.fromkeys(variant.traceback for variant in failed):
        names = ", ".join(variant.name for variant in failed if variant.traceback == traceback)
        click.echo(f"{names} failed:\n{escape_control_chars(traceback)}\n", err=True)
    for variant in analysis.variants:
        if lines := [*waits.describe_waits(variant)]:
            click.echo(
                "\n".join((f"{variant.name}: stacks of its ranks:", *map(escape_control_chars, lines), "")), err=True
            )


def show_paths(paths: list[Path]) -> None:
    """Print the path of the HTML report, or of all written files if there is none."""
    pages = [path for path in paths if path.suffix == ".html"]
    for path in pages or paths:
        click.echo(f"report: {path}")
