"""Lists the tools of the server, as a client sees them."""

from inspect import getdoc

from perfkit_cli.agents.roots import Root
from perfkit_cli.agents.tools import AgentTools, list_tools


def list_tool_descriptions(root: Root) -> list[dict[str, object]]:
    """Name, description and whether it runs the user's code, of each tool."""
    return [
        {
            "name": entry.function.__name__,
            "description": getdoc(entry.function) or "",
            "runs_user_code": entry.runs_user_code,
        }
        for entry in list_tools(AgentTools(root))
    ]
