"""The server: tools, and the reports below its folder as resources."""

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.resources import FunctionResource
from mcp_types import ToolAnnotations

import perfkit
from perfkit.core.errors import PerfkitError
from perfkit.store.report_kinds import find_kind
from perfkit_cli.agents.instructions import read_skill
from perfkit_cli.agents.roots import Root
from perfkit_cli.agents.tools import AgentTools, list_tools

REPORT_URI = "perfkit://reports/{+folder}"
SKILL_URI = "perfkit://skill"

_REPORT = "report.md"


def build_server(root: Root) -> MCPServer:
    """A server for the files of one folder."""
    server = MCPServer("perfkit", version=perfkit.__version__, instructions=read_skill(), log_level="WARNING")
    for entry in list_tools(AgentTools(root)):
        hints = ToolAnnotations(
            read_only_hint=not entry.runs_user_code, destructive_hint=False, open_world_hint=entry.runs_user_code
        )
        server.add_tool(entry.function, annotations=hints, structured_output=False)

    def read_report(folder: str) -> str:
        try:
            path = root.folder / root.resolve_path(folder)
        except PerfkitError as error:
            raise ResourceNotFoundError(f"{error} [{error.id}]") from None
        if find_kind(path) is None or not (path / _REPORT).is_file():
            raise ResourceNotFoundError(f"{folder} holds no report; `perfkit report {folder}` writes it")
        return (path / _REPORT).read_text(encoding="utf-8")

    server.resource(
        REPORT_URI, name="report", description="The report of a folder, as Markdown.", mime_type="text/markdown"
    )(read_report)
    server.add_resource(
        FunctionResource.from_function(
            read_skill, SKILL_URI, name="skill", description="How to work with perfkit.", mime_type="text/markdown"
        )
    )
    return server


def serve(root: Root) -> None:
    """Serve on standard input and output until the client leaves."""
    anyio.run(build_server(root).run_stdio_async)
