"""`perfkit bisect`: finds the commit, the release or the lock file line that made training worse."""

import signal
from pathlib import Path
from typing import Any

import click

from perfkit.core.errors import raise_terminated
from perfkit_cli.modes.bisect_search import run_search
from perfkit_cli.options.checked_options import add_case_options, add_place_options
from perfkit_cli.options.json_option import add_json_option

EXAMPLES = """\b
Examples:
  perfkit bisect --good v1.0 --bad main -w train.py:build             commits
  perfkit bisect --package torch --good 2.11 --bad 2.14 -w gpt        releases of a package, each installed by uv
  perfkit bisect --good old.lock --bad new.lock -w train.py:build     lines of two lock files
  perfkit bisect --good v1.0 --bad main --quantity peak_allocated --exact
  perfkit bisect --resume runs/2026-01-01-120000-bisect               after Ctrl-C: what was measured counts
\b
Without --workload, the cases of perfkit check are compared. Each candidate is checked against the good end, at half of
the difference between both ends; one that is undecided is measured longer, and never guessed.
\b
Exit codes: 0 the change was found, 1 an end does not train, 2 invalid request, 3 not found: the ends do not differ, or
several candidates are left; 130 interrupted.
"""
EXIT_NOT_FOUND = 3


@click.command(epilog=EXAMPLES, short_help="Find the change that made training worse.")
@click.option("--good", metavar="REF|RELEASE|FILE", help="The end that is fast: a commit, a release, or a lock file.")
@click.option("--bad", metavar="REF|RELEASE|FILE", help="The end that is slow.  [default: HEAD, of commits]")
@click.option("--package", metavar="NAME", help="Search the releases of this package.")
@click.option(
    "--releases", metavar="LIST", help="Releases to search, in order, such as 2.11.0,2.12.0.  [default: the index's]"
)
@add_case_options
@click.option("--quantity", metavar="NAME", help="What became worse.  [default: what fails between the ends]")
@click.option(
    "--threshold",
    "thresholds",
    multiple=True,
    metavar="QUANTITY=T",
    help="Smallest difference of the ends to search for, such as step_time=3%. May be repeated.",
)
@click.option("--exact", is_flag=True, help="Compare only exact quantities; time nothing.")
@click.option("--budget", metavar="TIME", help="Time limit for timing a candidate, such as 90s.  [default: 3min]")
@add_place_options
@click.option(
    "--out", metavar="FOLDER", type=click.Path(path_type=Path), help="Report folder.  [default: runs/TIME-bisect]"
)
@click.option(
    "--resume",
    metavar="FOLDER",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Continue the interrupted search in this folder, with its options.",
)
@add_json_option("the whole search")
@click.option("-v", "--verbose", is_flag=True, help="Print more of the report.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the answer and the report's path.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Find the change that made training worse, by binary search.

    Both ends are checked first. Of what failed there one quantity is searched, an exact one (kernels, memory) if there
    is one. The candidate in the middle is checked against the good end, until one change is left; then the ops, modules
    and tensors that it changed are named.
    """
    signal.signal(signal.SIGTERM, raise_terminated)
    from perfkit.check.bisect.result import BisectOptions  # not sooner: it needs NumPy
    from perfkit_cli.output.report_output import write_and_print
    from perfkit_reports.subjects.bisect.bisect_document import build_document

    quiet, as_json = options["quiet"], options["as_json"]
    given = BisectOptions(**{name: options[name] for name in BisectOptions.__struct_fields__})
    folder, bisection = run_search(given, out=options["out"], resume=options["resume"], quiet=quiet or as_json)
    document = build_document(bisection)
    write_and_print(document, folder, as_json=as_json, quiet=quiet, verbose=options["verbose"])
    ctx.exit(0 if bisection.is_found else EXIT_NOT_FOUND)
