"""`perfkit compare`: compares runs with the first of them."""

import re
from pathlib import Path

import click

from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import choose_folder
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.report_options import add_out_option, add_static_option
from perfkit_cli.options.url_folders import make_local_copy
from perfkit_cli.output.json_output import print_json

OUT = Path("perfkit-compare")

EXAMPLES = """\b
Examples:
  perfkit compare runs/monday runs/tuesday               two benchmarks variant by variant, or two loops
  perfkit compare runs/a100 runs/h100                    two machines
  perfkit compare runs/gpt@baseline runs/gpt@amp+ckpt    two variants of one benchmark, op by op
  perfkit compare before.json.gz after.json.gz           two traces
  perfkit compare before.pickle after.pickle             two memory snapshots
  perfkit compare runs/a runs/b runs/c --out /tmp/abc    several, each compared with the first
  perfkit compare h100.json.gz cpu.json.gz --anyway      on devices of different kinds
  perfkit compare runs/a runs/b --json | jq '.figures[0]'
\b
To test a code change for regressions, with statistics: `perfkit check`.
\b
Exit codes: 0 done, 1 failed, 2 invalid request or unreadable run, 130 interrupted.
"""


@click.command(epilog=EXAMPLES, short_help="Compare runs: time, memory, ops.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@add_out_option(f"{OUT}/NAMES")
@click.option("--anyway", is_flag=True, help="Compare even if the devices are of different kinds.")
@add_static_option
@add_json_option("the whole comparison", "; write no report")
@click.option("-v", "--verbose", is_flag=True, help="Print all tables.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the report's path.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    runs: tuple[str, ...],
    out: Path | None,
    anyway: bool,
    static: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Compare runs with the first: figures, time, memory and ops.

    RUN is a folder of `perfkit bench` (all variants, with the baseline in detail; FOLDER@VARIANT for one), `run`,
    `analyze` or `memory`, or a trace or memory recording. Name two or more, of any kind. Nothing is measured. The
    report names differences in device, workload and libraries.
    """
    from perfkit.analysis.pipeline.comparison import compare_runs
    from perfkit.store.summary import COMPARISON_FILE

    default = OUT / _derive_report_name(runs)
    folder = None if as_json else choose_folder(runs, out, default, COMPARISON_FILE, "perfkit compare")
    here = [make_local_copy(ctx, run) for run in runs]
    comparison = compare_runs(here, anyway=anyway, command=get_command_line())
    if folder is None:
        print_json(comparison)
        return
    from perfkit_cli.output.report_output import write_and_show
    from perfkit_reports.subjects.comparison.comparison_document import build_document

    write_and_show(build_document(comparison), folder, static=static, quiet=quiet, verbose=verbose)


def _derive_report_name(runs: tuple[str, ...]) -> str:
    """`a-b`, of the last parts of their paths."""
    from perfkit.trace.readers.trace_sources import derive_trace_name

    parts = (re.sub(r"[^\w.@+-]+", "-", derive_trace_name(run.rstrip("/"))).strip("-.") for run in runs)
    return "-".join(filter(None, parts))[:120] or "runs"
