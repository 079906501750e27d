"""`perfkit view`: serves the reports of a folder and the running jobs, for a browser."""

import signal
import sys
import webbrowser
from pathlib import Path

import click

EXAMPLES = """\b
Examples:
  perfkit view runs                  all reports and running jobs below it
  perfkit view                       the same for this folder
  perfkit view runs --open           open the page in the browser
  perfkit view runs --port 9000
\b
From another machine, through a tunnel:
  ssh -L 8787:localhost:8787 MACHINE     then open http://localhost:8787
\b
Exit codes: 0 ended with Ctrl-C, 2 the request is wrong.
"""


@click.command(epilog=EXAMPLES, short_help="Browse the reports of a folder and running jobs.")
@click.argument("runs", metavar="[RUNS]", type=click.Path(path_type=Path), default=".")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port to serve on.  [default: 8787, or a free port if taken]",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
def command(runs: Path, host: str, port: int | None, open_page: bool) -> None:
    """Serve a page with the suites and reports below RUNS and the running jobs.

    The page is served from this machine until Ctrl-C. No file outside RUNS is served. The list and the charts of a
    running job (`perfkit.profile(..., always_on=True)`) refresh by themselves. Opened at the printed address, with its
    token, the page can ask a running job to trace its next steps; it writes nothing else below RUNS.
    """
    from perfkit.errors import UsageError
    from perfkit_reports.view.headers import is_loopback
    from perfkit_reports.view.server import open_server

    if not runs.is_dir():
        what = "is not a folder" if runs.exists() else "does not exist"
        raise UsageError(f"{runs} {what}; name the folder that holds the runs, such as runs/")
    with open_server(runs.resolve(), host, port) as server:
        if not is_loopback(host):
            click.echo(f"warning: anyone who can reach {host} can read all runs below {runs}", err=True)
        address = f"{server.url}#token={server.token}"
        click.echo(f"serving {runs}: {address}  (Ctrl-C ends)")
        # So that what was drawn meanwhile is removed.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        if open_page:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("ended", err=True)
