"""`perfkit mcp`: serves perfkit's tools to an agent over the Model Context Protocol."""

from pathlib import Path

import click

from perfkit_cli.options.json_option import add_json_option
from perfkit_cli.output.json_output import print_json

EXAMPLES = """\b
Examples:
  perfkit mcp                            serve on standard input and output, limited to this folder
  perfkit mcp --root ~/project           limited to another folder
  perfkit mcp --skill                    how an agent should work with perfkit
  perfkit mcp --json                     the tools, and where the instructions are
\b
For a client's configuration:
  {"mcpServers": {"perfkit": {"command": "perfkit", "args": ["mcp", "--root", "/path/to/project"]}}}
\b
Exit codes: 0 the client has left, 1 failed, 2 invalid request.
"""


@click.command(epilog=EXAMPLES, short_help="Serve perfkit's tools to an agent (MCP).")
@click.option(
    "--root",
    default=".",
    show_default=True,
    metavar="FOLDER",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder that paths are limited to, symbolic links resolved; commands run in it.",
)
@click.option("--skill", is_flag=True, help="Print the instructions for agents.")
@add_json_option("the tools", "; do not serve")
def command(root: Path, skill: bool, as_json: bool) -> None:
    """Serve perfkit to an agent over the Model Context Protocol, on standard input and output.

    Tools analyze traces, simulate changes, plan, advise, bench, tune and check. Only bench, tune and check run code of
    yours, and say so. Answers are at most 4,000 tokens unless more are asked for: summaries first, the rest by id.
    Needs perfkit[agents].
    """
    from perfkit_cli.agents.instructions import AGENTS_FILE, SKILL_FILE, read_skill

    if skill:
        click.echo(read_skill(), nl=False)
        return
    from perfkit.core.optional_deps import explain_import_error

    try:
        from perfkit_cli.agents.server import serve
        from perfkit_cli.agents.tool_listing import list_tool_descriptions
    except ModuleNotFoundError as error:
        raise explain_import_error("mcp", "'perfkit[agents]'", error) from error
    from perfkit_cli.agents.roots import Root

    if as_json:
        tools = list_tool_descriptions(Root(root))
        print_json({"tools": tools, "skill": str(SKILL_FILE), "agents": str(AGENTS_FILE)})
    else:
        serve(Root(root))
