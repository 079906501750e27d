"""`perfkit report`: draw a suite's report again, from its folder alone."""

from pathlib import Path

import click

EXAMPLES = """\b
Examples:
  perfkit report runs/2026-01-31-120000-gpt
  perfkit report runs/2026-01-31-120000-gpt --out /tmp/shared-report
"""


@click.command(epilog=EXAMPLES)
@click.argument("folder", metavar="RUNS", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Folder to write to.  [default: RUNS itself]"
)
@click.option("-q", "--quiet", is_flag=True, help="Print the paths only.")
def command(folder: Path, out: Path | None, quiet: bool) -> None:
    """Draw the report of a suite again.

    RUNS is a folder written by `perfkit bench`. Nothing is measured and none of your code is run: the folder is
    all that is needed, on any machine.
    """
    from perfkit_cli.show import analyse_and_write, show_paths, show_summary

    analysis, paths = analyse_and_write(folder, out or folder)
    if not quiet:
        show_summary(analysis)
    show_paths(paths)
