"""`perfkit report`: regenerates a report from its folder alone."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfkit.store.price import Price
from perfkit_cli.options import option_values
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.report_options import add_out_option
from perfkit_cli.options.url_folders import FolderOrUrl

if TYPE_CHECKING:
    from perfkit_reports.document.document import Document

EXAMPLES = """\b
Examples:
  perfkit report runs/2026-01-31-120000-gpt
  perfkit report runs/2026-01-31-120000-gpt --out /tmp/shared-report
  perfkit report runs/2026-01-31-120000-gpt --price '$2.49/h'
  perfkit report s3://bucket/runs/x                     copied to runs/x; the new report is copied back
  perfkit report perfkit-analyze/trace --static
  perfkit report perfkit-memory/snapshot
  perfkit report runs/2026-01-31-120000-check
\b
Exit codes: 0 done, 1 failed, 2 invalid request or unreadable folder, 130 interrupted.
"""


@click.command(epilog=EXAMPLES)
@click.argument("folder", metavar="FOLDER", type=FolderOrUrl())
@add_out_option("FOLDER itself")
@click.option(
    "--static",
    is_flag=True,
    callback=option_values.require_images_option,
    help="Also write all figures as PNG and SVG (perfkit[images]), not only a suite's main ones.",
)
@click.option("--notebook", is_flag=True, help="Also write the summary for a notebook, as notebook.html.")
@click.option(
    "--price",
    metavar="PRICE",
    callback=option_values.parse_price_option,
    help="For a suite: hourly cost of the hardware, such as 2.49/h; adds the cost of a million tokens or a thousand "
    "samples.",
)
@add_json_option("the report's content")
@click.option("-v", "--verbose", is_flag=True, help="Print all findings and tables.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the paths.")
def command(
    *,
    folder: Path,
    out: Path | None,
    static: bool,
    notebook: bool,
    price: Price | None,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Regenerate a report.

    FOLDER was written by `perfkit bench`, `run`, `analyze`, `memory`, `check`, `compare` or `attach`. Nothing is
    measured, and none of your code runs. The folder is all it needs, on any machine.
    """
    from perfkit_cli.output.report_output import write_and_print
    from perfkit_reports.subjects.registry import load_document

    document = load_document(folder) if price is None else _build_priced_document(folder, price)
    write_and_print(document, out or folder, as_json=as_json, static=static, quiet=quiet, verbose=verbose)
    if notebook:
        from perfkit.core.files import write_bytes
        from perfkit.store.layout import NOTEBOOK_FILE
        from perfkit_reports.render.notebook import render

        page = (out or folder) / NOTEBOOK_FILE
        write_bytes(page, render(document, page.with_name("report.html").absolute()).encode())


def _build_priced_document(folder: Path, price: Price) -> "Document":
    """Refuse a price for anything but a suite: only a suite has a throughput to price."""
    from perfkit.analysis.pipeline.suite_analysis import analyze_suite
    from perfkit.analysis.suite.cost import add_costs
    from perfkit_reports.subjects.registry import build_document

    return build_document(add_costs(analyze_suite(folder), price))
