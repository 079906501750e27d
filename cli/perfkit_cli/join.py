"""`perfkit join`: runs this machine's ranks of a bench that another machine started."""

import signal
from typing import TYPE_CHECKING

import click

from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.output.json_output import print_json

if TYPE_CHECKING:
    from perfkit.measure.launch.nodes import NodeCoordinator

EXAMPLES = """\b
Examples:
  perfkit join host1:29500 --node-rank 1      on the second machine; on the first, host1:
  perfkit bench --launcher torchrun --nnodes 2 --world-size 4 --rdzv-endpoint host1:29500 --out /shared/runs/x
\b
Exit codes: 0 the first machine is done, 1 it could not be reached, 2 invalid request, 130 interrupted,
143 terminated.
"""


@click.command(epilog=EXAMPLES, short_help="Run this machine's share of a multi-node benchmark.")
@click.argument("endpoint", metavar="HOST:PORT")
@click.option(
    "--node-rank", metavar="K", type=click.IntRange(min=1), required=True, help="Number of this machine, from 1."
)
@add_json_option("the runs of this machine", ", at the end")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
def command(*, endpoint: str, node_rank: int, as_json: bool, quiet: bool) -> None:
    """Run this machine's ranks of a benchmark that the first machine started with --launcher torchrun.

    HOST:PORT is the --rdzv-endpoint of that benchmark. Start this command in the same folder, with the same workload,
    packages and environment; the output folder must have the same path on every machine, and the machines need the same
    secret: the variable PERFKIT_SECRET, else the file join-secret of perfkit's cache folder. It may start first (it
    waits up to an hour), and ends when the first machine is done.
    """
    from perfkit.core.errors import raise_terminated
    from perfkit.measure.launch.nodes import NodeCoordinator, wait_for_first_node

    # The first process of a container ignores signals without a handler.
    signal.signal(signal.SIGTERM, raise_terminated)
    if not quiet:
        click.echo(f"waiting for {endpoint}", err=True)
    wait_for_first_node(endpoint)
    orders = NodeCoordinator(endpoint, first=False)
    orders.join(node_rank)
    try:
        runs = _run_ranks(orders, node_rank, quiet=quiet)
    except BaseException:
        orders.announce_quit()
        raise
    if as_json:
        print_json({"endpoint": endpoint, "node_rank": node_rank, "runs": runs})


def _run_ranks(orders: "NodeCoordinator", node_rank: int, *, quiet: bool) -> list[str]:
    """Run what the first machine orders; the folders of the runs."""
    from perfkit.core.errors import PerfkitError
    from perfkit.measure.launch.torchrun_launcher import run_node_ranks
    from perfkit.store.layout import SPEC_FILE

    runs = []
    while (folder := orders.wait_for_run()) is not None:
        if not (folder / SPEC_FILE).is_file():
            raise PerfkitError(f"{folder} does not exist on this machine; use a folder that all machines share")
        if not quiet:
            click.echo(f"{folder}", err=True)
        run_node_ranks(folder, node_rank, orders)
        runs.append(str(folder))
    return runs
