"""`perfkit workloads`: lists the workloads that can be trained."""

import click

from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.output.json_output import print_json

EXAMPLES = """\b
Columns: name, availability on this machine, description, parameters with defaults.
Parameters follow the name: --workload gpt:size=small:vocab=8192
Name your own workload by its function: --workload path/to/file.py:function or package.module:function
\b
Exit codes: 0 done, 2 invalid request.
"""


@click.command(epilog=EXAMPLES, short_help="List the workloads.")
@add_json_option("the list")
def command(as_json: bool) -> None:
    """List the workloads, their parameters, and which are available on this machine."""
    from perfkit.workloads.workload_table import describe_workloads
    from perfkit_cli.output.listing import ListedItem, WorkloadList, show_listing

    items = [
        ListedItem(
            name=item.name,
            summary=item.summary,
            parameters=item.parameters,
            unavailable=item.unavailable,
            broken=item.broken,
        )
        for item in describe_workloads()
    ]
    if as_json:
        print_json(WorkloadList(workloads=tuple(items)))
    else:
        show_listing(items)
