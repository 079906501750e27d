"""From a suite's folder to its report on disk and its summary on the terminal."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace import TraceAnalysis
from perfkit.record import Status

if TYPE_CHECKING:
    from perfkit_reports.document.document import Document

PLAIN_WIDTH = 100


def analyse_and_write(folder: Path, out: Path) -> tuple[Analysis, list[Path]]:
    """Analyse the suite in `folder` and write its reports to `out`."""
    from perfkit.analysis.suite.analyse import analyse
    from perfkit_reports.write import write_reports

    analysis = analyse(folder)
    return analysis, write_reports(analysis, out)


def show_summary(analysis: Analysis) -> None:
    """The terminal summary on standard output."""
    from perfkit_reports.terminal import render

    render(analysis, _console())


def show_trace_summary(analysis: TraceAnalysis) -> None:
    """The terminal summary of a report on traces on standard output."""
    from perfkit_reports.trace_terminal import render

    render(analysis, _console())


def show_document(document: "Document", *, verbose: bool = False) -> None:
    """A report's summary on standard output."""
    from perfkit_reports.render.terminal import render

    render(document, _console(), verbose=verbose)


def _console() -> Console:
    """Standard output, in a width of its own where that is no terminal."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PLAIN_WIDTH
    return console


def show_tracebacks(analysis: Analysis) -> None:
    """What the user's own code raised, once where several variants failed in the same way."""
    failed = [variant for variant in analysis.variants if variant.status == Status.FAILED and variant.traceback]
    for traceback in dict.fromkeys(variant.traceback for variant in failed):
        names = ", ".join(variant.name for variant in failed if variant.traceback == traceback)
        click.echo(f"{names} failed:\n{traceback}\n", err=True)


def show_paths(paths: list[Path]) -> None:
    """Where the report is: the HTML report, or everything written where there is none."""
    pages = [path for path in paths if path.suffix == ".html"]
    for path in pages or paths:
        click.echo(f"report: {path}")
