"""`perfkit report`: draw a report again, from its folder alone."""

from pathlib import Path

import click

EXAMPLES = """\b
Examples:
  perfkit report runs/2026-01-31-120000-gpt
  perfkit report runs/2026-01-31-120000-gpt --out /tmp/shared-report
  perfkit report perfkit-analyze/trace --static
  perfkit report perfkit-memory/snapshot
"""


@click.command(epilog=EXAMPLES)
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to.  [default: FOLDER itself]"
)
@click.option("--static", is_flag=True, help="Write a trace report's figures as PNG and SVG too; a suite's always are.")
@click.option("-q", "--quiet", is_flag=True, help="Print the paths only.")
def command(folder: Path, out: Path | None, static: bool, quiet: bool) -> None:
    """Draw a report again.

    FOLDER was written by `perfkit bench`, `perfkit analyze` or `perfkit memory`. Nothing is measured and none of your
    code is run: the folder is all that is needed, on any machine.
    """
    from perfkit_cli.analyze import ANALYSIS_FILE, write_and_show
    from perfkit_cli.show import analyse_and_write, show_paths, show_summary
    from perfkit_reports.memory_write import MEMORY_FILE

    if (folder / ANALYSIS_FILE).is_file():
        from perfkit.analysis.traces.result import TraceAnalysis
        from perfkit.files import read_json

        write_and_show(read_json(folder / ANALYSIS_FILE, TraceAnalysis), out or folder, static=static, quiet=quiet)
        return
    if (folder / MEMORY_FILE).is_file():
        from perfkit.analysis.memory.result import MemoryAnalysis
        from perfkit.files import read_json
        from perfkit_cli import memory

        found = read_json(folder / MEMORY_FILE, MemoryAnalysis)
        memory.write_and_show(found, out or folder, static=static, quiet=quiet)
        return
    analysis, paths = analyse_and_write(folder, out or folder)
    if not quiet:
        show_summary(analysis)
    show_paths(paths)
