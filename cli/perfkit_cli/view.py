"""`perfkit view`: serves the reports of a folder and the running jobs, for a browser."""

import signal
import sys
import webbrowser
from pathlib import Path

import click

from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.output.json_output import print_json

EXAMPLES = """\b
Examples:
  perfkit view runs                  all reports and running jobs below runs
  perfkit view                       those below the current folder
  perfkit view runs --open           open the page in the browser
  perfkit view runs --port 9000
\b
From another machine, through a tunnel:
  ssh -L 8787:localhost:8787 MACHINE     then open http://localhost:8787
\b
Exit codes: 0 ended with Ctrl-C, 2 invalid request.
"""


@click.command(epilog=EXAMPLES, short_help="Browse the reports of a folder and running jobs.")
@click.argument("runs", metavar="[RUNS]", type=click.Path(path_type=Path), default=".")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Address to serve on.")
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="Port to serve on.  [default: 8787, or a free port if taken]",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@add_json_option("the address")
def command(runs: Path, host: str, port: int | None, open_page: bool, as_json: bool) -> None:
    """Serve the suites, reports and running jobs below the folder RUNS as web pages.

    The server runs on this machine until Ctrl-C, and serves no file outside RUNS. The list and the charts of a running
    job (`perfkit.profile(..., always_on=True)`) refresh automatically. From the printed address, which contains a
    token, a page can ask a running job to trace its next steps; nothing else is written below RUNS.
    """
    from perfkit.core.errors import UsageError
    from perfkit_reports.view.headers import is_loopback
    from perfkit_reports.view.server import open_server

    if not runs.is_dir():
        problem = "not a folder" if runs.exists() else "no such folder"
        raise UsageError(f"{runs}: {problem}; name the folder with the runs, such as runs/")
    with open_server(runs.resolve(), host, port) as server:
        if not is_loopback(host):
            click.echo(f"warning: anyone who can reach {host} can read all runs below {runs}", err=True)
        address = f"{server.url}#token={server.token}"
        if as_json:
            print_json({"runs": str(runs), "url": address})
        else:
            click.echo(f"serving {runs}: {address}  (Ctrl-C to stop)")
        # Exit in order, so that temporary reports are removed.
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        if open_page:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("ended", err=True)
