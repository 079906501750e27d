"""`perfkit report`: draw a report again, from its folder alone."""

from pathlib import Path

import click

EXAMPLES = """\b
Examples:
  perfkit report runs/2026-01-31-120000-gpt
  perfkit report runs/2026-01-31-120000-gpt --out /tmp/shared-report
  perfkit report perfkit-analyze/trace --static
  perfkit report perfkit-memory/snapshot
  perfkit report runs/2026-01-31-120000-check
"""


@click.command(epilog=EXAMPLES)
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to.  [default: FOLDER itself]"
)
@click.option("--static", is_flag=True, help="Write a trace report's figures as PNG and SVG too; a suite's always are.")
@click.option(
    "--notebook", is_flag=True, help="Write a suite's summary as notebook.html too, to be shown in a notebook."
)
@click.option("-q", "--quiet", is_flag=True, help="Print the paths only.")
def command(*, folder: Path, out: Path | None, static: bool, notebook: bool, quiet: bool) -> None:
    """Draw a report again.

    FOLDER was written by `perfkit bench`, `perfkit run`, `perfkit analyze`, `perfkit memory` or `perfkit check`.
    Nothing is measured and none of your code is run: the folder is all that is needed, on any machine.
    """
    from perfkit.store.summary import CHECK_FILE, MEMORY_REPORT_FILE, TRACE_REPORT_FILE
    from perfkit_cli.analyze import write_and_show
    from perfkit_cli.show import analyse_and_write, show_paths, show_summary

    if (folder / TRACE_REPORT_FILE).is_file():
        from perfkit.analysis.trace.read import read_trace_analysis

        write_and_show(read_trace_analysis(folder), out or folder, static=static, quiet=quiet)
        return
    if (folder / MEMORY_REPORT_FILE).is_file():
        from perfkit.analysis.memory.result import MemoryAnalysis
        from perfkit.files import read_json
        from perfkit_cli import memory

        found = read_json(folder / MEMORY_REPORT_FILE, MemoryAnalysis)
        memory.write_and_show(found, out or folder, static=static, quiet=quiet)
        return
    if (folder / CHECK_FILE).is_file():
        from rich.console import Console

        from perfkit.check.judge.read import read_check
        from perfkit_reports.render import terminal
        from perfkit_reports.render.write import write
        from perfkit_reports.subjects.check.document import document

        said = document(read_check(folder))
        written = write(said, out or folder, unsure="failure")
        if not quiet:
            terminal.render(said, Console())
        show_paths(written)
        return
    analysis, paths = analyse_and_write(folder, out or folder)
    if notebook:
        from perfkit.files import write_bytes
        from perfkit.store.layout import NOTEBOOK_FILE
        from perfkit_reports.notebook import render

        page = (out or folder) / "report.html"
        write_bytes(page.with_name(NOTEBOOK_FILE), render(analysis, page.absolute()).encode())
    if not quiet:
        show_summary(analysis)
    show_paths(paths)
