"""`perfkit check`: compares with a revision or a baseline, judges against thresholds, and says why."""

import signal
from pathlib import Path
from typing import Any

import click

from perfkit.core.errors import raise_terminated
from perfkit_cli.modes.check_modes import CheckArguments, run_check
from perfkit_cli.options.checked_options import add_case_options, add_place_options
from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.options.option_values import require_one_of

EXAMPLES = """\b
Examples:
  perfkit check --against-ref origin/main            both sides measured now, interleaved
  perfkit check --against-env torch==2.13.0          the same code in another environment, created by uv
  perfkit check --update                             write the baseline, and commit it
  perfkit check --exact                              memory, FLOPs, kernels, graph breaks, losses; no timing
  perfkit check runs/new --baseline runs/old         two existing runs; nothing is run
  perfkit check --against-ref main -w train.py:build -t amp --threshold step_time=4% --budget 5min
  perfkit check --calibrate                          the smallest change detectable on this machine
  perfkit check --history runs                       when did it change, and with which commits?
\b
Configure cases and thresholds in pyproject.toml ([tool.perfkit.check]) or perfkit.toml ([check]); options take
precedence. Thresholds: 3% (a relative change), +64MiB (an absolute one), <=2GiB (a limit), off (reported only).
\b
A quantity fails if it is significantly worse, by more than its threshold. If it is significantly worse by less, its
verdict is worse, which fails the check only with --fail-on worse.
\b
Exit codes: 0 passed (also with the verdict worse), 1 regression or failed run, 2 invalid request, 3 inconclusive
(--inconclusive CODE), 130 interrupted.
"""


@click.command(epilog=EXAMPLES, short_help="Check a change against thresholds.")
@click.argument("run", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--against-ref", metavar="REF", help="Compare with this revision, checked out and measured alongside yours."
)
@click.option(
    "--against-env",
    metavar="ENV",
    help="Compare with this environment: requirements such as torch==2.14.1, a requirements file, a virtual "
    "environment's folder or a Python interpreter.",
)
@click.option(
    "--against-env-var",
    "env_variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Compare with this environment variable set, or removed. May be repeated.",
)
@click.option(
    "--baseline", metavar="FILE|RUN|BRANCH", help="Compare with stored figures.  [default: the baseline file]"
)
@click.option("--update", is_flag=True, help="Measure, and write the baseline file.")
@click.option(
    "--calibrate",
    is_flag=True,
    help="Measure the smallest change that this machine can detect, and the time it takes.",
)
@click.option(
    "--history",
    metavar="FOLDER",
    type=click.Path(path_type=Path, exists=True),
    help="Find change points across the runs in a folder; measure nothing.",
)
@add_case_options
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="QUANTITY=T",
    help="QUANTITY=THRESHOLD, such as step_time=3%. May be repeated.",
)
@click.option("--exact", is_flag=True, help="Compare only exact quantities; time nothing.")
@click.option(
    "--budget", metavar="TIME", help="Time limit for timing, over all variants, such as 90s.  [default: 3min]"
)
@add_place_options
@click.option(
    "--fail-on",
    metavar="[fail|worse]",
    callback=require_one_of("value of --fail-on", ("fail", "worse")),
    help="Lowest failing verdict.  [default: fail]",
)
@click.option(
    "--inconclusive",
    metavar="CODE",
    type=click.IntRange(0, 255),
    help="Exit code for an inconclusive check.  [default: 3]",
)
@click.option(
    "--out", metavar="FOLDER", type=click.Path(path_type=Path), help="Report folder.  [default: runs/TIME-check]"
)
@click.option(
    "--markdown",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Also write the pull request comment to this file.",
)
@click.option("--junit", metavar="FILE", type=click.Path(path_type=Path), help="Also write JUnit XML to this file.")
@click.option(
    "--github/--no-github",
    default=None,
    help="Write GitHub annotations and the step summary.  [default: if GITHUB_ACTIONS is set]",
)
@add_json_option("the whole check")
@click.option("-v", "--verbose", is_flag=True, help="Also show quantities without a gate.")
@click.option("-q", "--quiet", is_flag=True, help="Show only non-passing results and the report's path.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Check a change for performance regressions.

    Memory, FLOPs, kernels, graph breaks and losses are compared first, exactly. Times are compared between pairs of
    interleaved processes, until every quantity is decided or the time limit is reached. A difference that the data
    cannot resolve is inconclusive: neither a pass nor a failure. The report names the ops, modules and tensors that
    changed.
    """
    signal.signal(signal.SIGTERM, raise_terminated)  # SIGTERM counts as an interruption
    ctx.exit(run_check(CheckArguments(**options)))
