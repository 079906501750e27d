"""`perfkit attach`: shows the lines that a running Python process is in."""

from pathlib import Path

import click

from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import refuse_foreign
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.option_values import parse_duration_option
from perfkit_cli.options.report_options import add_out_option

OUT = Path("perfkit-attach")

EXAMPLES = """\b
Examples:
  perfkit attach 4711                              ten seconds of a running job
  perfkit attach 4711 --duration 1min --rate 50
  perfkit attach $(pgrep -of train.py)
\b
Another user's process needs sudo; a container needs --cap-add SYS_PTRACE.
\b
Ctrl-C ends sampling early: the report covers the samples so far, and the exit code is 130.
\b
Exit codes: 0 done, 1 failed, 2 invalid request or no such process, 130 interrupted (samples are kept).
"""


@click.command(epilog=EXAMPLES, short_help="Sample the stacks of a running Python process.")
@click.argument("pid", metavar="PID", type=click.IntRange(min=1))
@click.option(
    "--duration",
    "seconds",
    default="10s",
    metavar="TIME",
    callback=parse_duration_option,
    help="Sampling time.  [default: 10s]",
)
@click.option(
    "--rate",
    default=100,
    show_default=True,
    metavar="HZ",
    type=click.IntRange(1, 1000),
    help="Samples per second; each one briefly stops the process.",
)
@add_out_option(f"{OUT}/PID")
@add_json_option("the whole analysis")
@click.option("-v", "--verbose", is_flag=True, help="Print more of the report.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the report's path.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    pid: int,
    seconds: float,
    rate: int,
    out: Path | None,
    as_json: bool,
    verbose: bool,
    quiet: bool,
) -> None:
    """Sample the Python stacks of process PID and its children, by thread.

    The process needs no preparation, and stops only briefly for each sample.
    """
    from perfkit.analysis.pipeline.process_stacks import analyze_process
    from perfkit.core.errors import PerfkitError, UsageError
    from perfkit.core.files import write_bytes
    from perfkit.instruments.sensors.process_sampling import find_process, sample_process
    from perfkit.store.stack_formats import encode_speedscope
    from perfkit.store.stacks import COLLAPSED_FILE, SPEEDSCOPE_FILE
    from perfkit.store.summary import PROCESS_FILE
    from perfkit_cli.output.error_output import EXIT_INTERRUPTED
    from perfkit_cli.output.report_output import write_and_print
    from perfkit_reports.subjects.process.process_document import build_document

    if seconds < 1:
        raise UsageError("--duration: expected at least 1s")
    process = find_process(pid)
    folder = out or OUT / str(pid)
    refuse_foreign(folder, PROCESS_FILE, "perfkit attach")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        facts, threads = sample_process(process, folder / COLLAPSED_FILE, seconds=seconds, hz=rate)
    except PerfkitError:
        if not any(folder.iterdir()):
            folder.rmdir()
        raise
    write_bytes(folder / SPEEDSCOPE_FILE, encode_speedscope(threads))
    analysis = analyze_process(facts, threads, command=get_command_line())
    write_and_print(build_document(analysis), folder, as_json=as_json, quiet=quiet, verbose=verbose)
    if facts.interrupted:
        click.echo("interrupted", err=True)
        ctx.exit(EXIT_INTERRUPTED)
