"""The server's tools, through the package's own client within this process."""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio
from mcp import Client, MCPError

from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit_cli.agents import tools
from perfkit_cli.agents.answers import DEFAULT_TOKENS
from perfkit_cli.agents.cli_process import CommandError, CommandResult
from perfkit_cli.agents.roots import Root
from perfkit_cli.agents.server import build_server
from perfkit_cli.agents.tool_listing import list_tool_descriptions
from perfkit_reports.document.raw import encode_json
from tests.fixtures.gpu_traces import training_file

Talk = Callable[[Client], Awaitable[None]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    training_file(tmp_path / "trace.json")
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, project: Path) -> list[tuple[Sequence[str], bool]]:
    """The commands that tools run, answered from one analysis without a process."""
    analysis = json.loads(encode_json(analyze_traces([project / "trace.json"], what_ifs=["gemm=0.5"], jobs=1)))
    commands: list[tuple[Sequence[str], bool]] = []

    async def answer(arguments: Sequence[str], folder: Path, progress: Any, *, user_code: bool = False) -> Any:
        commands.append((arguments, user_code))
        assert folder == project.resolve()
        await progress(1.0, "reading")
        if arguments[0] != "analyze":
            raise CommandError("no such thing", "usage.wrong")
        return CommandResult(analysis, 0)

    monkeypatch.setattr(tools, "run_command", answer)
    return commands


def _talk(project: Path, talk: Talk) -> None:
    async def run() -> None:
        async with Client(build_server(Root(project))) as client:
            await talk(client)

    anyio.run(run)


def _read(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    content: dict[str, Any] = json.loads(result.content[0].text)
    return content


def test_tools_are_listed_and_those_that_run_code_say_so(project: Path) -> None:
    async def talk(client: Client) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        expected = list_tool_descriptions(Root(project))
        assert list(listed) == [tool["name"] for tool in expected]
        assert {name for name, tool in listed.items() if "RUNS THE USER'S CODE" in tool.description} == {
            "bench",
            "tune",
            "check",
        }
        assert {name for name, tool in listed.items() if not tool.annotations.read_only_hint} == {
            "bench",
            "tune",
            "check",
        }
        assert {tool["name"] for tool in expected if tool["runs_user_code"]} == {"bench", "tune", "check"}

    _talk(project, talk)


def test_an_analysis_is_summarized_and_looked_into_by_id(project: Path, asked: list[Any]) -> None:
    async def talk(client: Client) -> None:
        seen: list[str] = []

        async def note(_done: float, _total: float | None, message: str | None) -> None:
            seen.append(message or "")

        result = await client.call_tool("analyze", {"path": "trace.json"}, progress_callback=note)
        assert len(result.content[0].text) <= 3 * DEFAULT_TOKENS
        summary = _read(result)
        assert asked == [(["analyze", "--", "trace.json"], False)]
        assert seen == ["reading"]
        id = summary["findings"][0]["id"]
        whole = _read(await client.call_tool("findings", {"result": summary["result"], "id": id}))
        assert whole["findings"][0]["figures"]
        first, second = [
            _read(await client.call_tool("rows", {"result": summary["result"], "offset": offset, "limit": 1}))
            for offset in (0, 1)
        ]
        assert first["total"] == summary["traces"][0]["rows"]["kernels"]
        assert first["rows"] != second["rows"]
        simulated = _read(await client.call_tool("what_if", {"path": "trace.json", "changes": ["gemm=0.5"]}))
        assert simulated["traces"][0]["changes"][0]["change"] == "gemm=0.5"

    _talk(project, talk)


@pytest.mark.parametrize(
    ("tool", "arguments", "id"),
    [
        ("analyze", {"path": "../secret.json"}, "usage.outside_root"),
        ("analyze", {"path": "none.json"}, "usage.no_file"),
        ("bench", {"workload": "/tmp/train.py:build", "technique": "amp"}, "usage.outside_root"),
        ("check", {"against_ref": "--upload-pack=x"}, "usage.no_revision"),
        ("findings", {"result": "bench-9"}, "usage.unknown_result"),
        ("plan", {"workload": "gpt"}, "usage.wrong"),
    ],
)
def test_errors_have_their_id(project: Path, asked: list[Any], tool: str, arguments: dict[str, str], id: str) -> None:
    async def talk(client: Client) -> None:
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        assert result.content[0].text.endswith(f"[{id}]")

    _talk(project, talk)


def test_only_bench_and_check_may_load_code(project: Path, asked: list[Any]) -> None:
    async def talk(client: Client) -> None:
        for tool, arguments in (
            ("bench", {"workload": "gpt", "technique": "amp"}),
            ("check", {}),
            ("plan", {"workload": "gpt"}),
            ("advise", {"subject": "trace.json"}),
            ("explain", {"id": "sync.item"}),
        ):
            await client.call_tool(tool, arguments)
        assert {command[0]: user_code for command, user_code in asked} == {
            "bench": True,
            "check": True,
            "plan": False,
            "advise": False,
            "explain": False,
        }

    _talk(project, talk)


def test_reports_below_the_root_are_resources(project: Path) -> None:
    (project / "runs" / "a").mkdir(parents=True)
    (project / "runs" / "a" / "check.json").write_text("{}")
    (project / "runs" / "a" / "report.md").write_text("# A report")

    async def talk(client: Client) -> None:
        (report,) = (await client.read_resource("perfkit://reports/runs/a")).contents
        assert report.text == "# A report"
        assert (await client.read_resource("perfkit://skill")).contents[0].text.startswith("---\nname: perfkit")
        for wrong in ("perfkit://reports/runs", "perfkit://reports/..%2F..%2Fetc"):
            with pytest.raises(MCPError):
                await client.read_resource(wrong)

    _talk(project, talk)
