"""`perfkit merge`: one report from the parts that tasks of a job array analyzed."""

from pathlib import Path

import click

from perfkit_cli.analyze import ENGINES, OUT
from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import refuse_foreign
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.option_values import require_one_of
from perfkit_cli.options.report_options import add_out_option, add_static_option
from perfkit_cli.output.json_output import print_json

EXAMPLES = """\b
Examples:
  perfkit analyze traces/ --part $SLURM_ARRAY_TASK_ID/16 --into parts/    a task of an array from 1 to 16
  perfkit merge parts/                                                    then the report
  perfkit merge s3://bucket/parts --out report
\b
Exit codes: 0 done, 1 failed, 2 invalid request or a missing part, 130 interrupted.
"""


@click.command(epilog=EXAMPLES, short_help="Merge the parts of perfkit analyze --part.")
@click.argument("parts", metavar="FOLDER")
@add_out_option(f"{OUT}/NAME")
@add_static_option
@click.option(
    "--engine",
    default=ENGINES[0],
    show_default=True,
    metavar=f"[{'|'.join(ENGINES)}]",
    callback=require_one_of("engine", ENGINES),
    help="Where the chosen traces are read again: in processes on this machine, or as tasks of a Ray cluster.",
)
@click.option("--jobs", metavar="N", type=click.IntRange(min=1), help="Traces analyzed at once.")
@add_json_option("the whole analysis", "; write no report")
@click.option("-v", "--verbose", is_flag=True, help="Print all findings and tables.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the report's path.")
def command(
    *,
    parts: str,
    out: Path | None,
    static: bool,
    engine: str,
    jobs: int | None,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Merge the parts that `perfkit analyze --part` wrote to FOLDER (or a URL) into one report.

    The report is the one that all traces give in one analysis. All parts must be there; the traces of a few ranks are
    read again.
    """
    from perfkit.analysis.pipeline.trace_parts import merge_parts
    from perfkit.store.summary import TRACE_REPORT_FILE

    folder = out or OUT / (Path(parts.rstrip("/")).name or "parts")
    if not as_json:
        refuse_foreign(folder, TRACE_REPORT_FILE, "perfkit analyze")
    analysis = merge_parts(parts, engine=engine, jobs=jobs, command=get_command_line())
    if as_json:
        print_json(analysis)
        return
    from perfkit_cli.output.report_output import write_and_show
    from perfkit_reports.subjects.trace import build_document

    write_and_show(build_document(analysis), folder, static=static, quiet=quiet, verbose=verbose)
