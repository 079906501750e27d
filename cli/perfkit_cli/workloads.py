"""`perfkit workloads`: lists the workloads that can be trained."""

import click

EXAMPLES = """\b
Columns: name, availability on this machine, description, parameters with defaults.
Parameters follow the name: --workload gpt:size=small:vocab=8192
Name your own workload by its function: --workload path/to/file.py:function or package.module:function
"""


@click.command(epilog=EXAMPLES, short_help="List the workloads.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the workloads, their parameters, and which are available on this machine."""
    from perfkit.workloads.workload_table import describe_workloads
    from perfkit_cli.output.listing import ListedItem, show_listing

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
    show_listing(items, as_json=as_json)
