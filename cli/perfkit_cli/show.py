"""From a suite's folder to its report on disk and its summary on the terminal."""

from pathlib import Path

import click
from perfkit_reports.terminal import render
from perfkit_reports.write import write_reports
from rich.console import Console

from perfkit.analysis.result import Analysis
from perfkit.analysis.suite import analyse


def analyse_and_write(folder: Path, out: Path) -> tuple[Analysis, list[Path]]:
    """Analyse the suite in `folder` and write its reports to `out`."""
    analysis = analyse(folder)
    return analysis, write_reports(analysis, out)


def show_summary(analysis: Analysis) -> None:
    """The terminal summary on standard output."""
    render(analysis, Console())


def show_paths(paths: list[Path]) -> None:
    """Where the report is: the HTML report, or everything written where there is none."""
    pages = [path for path in paths if path.suffix == ".html"]
    for path in pages or paths:
        click.echo(f"report: {path}")
