"""`perfkit mcp` as a client of its own package starts it: over standard input and output."""

import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio
from mcp import Client, StdioServerParameters

from perfkit_cli.agents.answers import DEFAULT_TOKENS
from tests.fixtures.gpu_traces import training_file

_MOST_S = 1200  # of a bench on a busy machine
_TINY = {"batch_size": 1, "seq_len": 8, "rounds": 0}

# Cold: asyncio waits for its children itself, and those of a warm process are another's.
pytestmark = [pytest.mark.slow, pytest.mark.cold, pytest.mark.timeout(_MOST_S)]

USER = """
import perfkit, torch
from pathlib import Path

def build():
    Path("ran").touch()
    model = torch.nn.Linear(8, 8)
    return perfkit.Workload(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: torch.randn(4, 8, generator=generator),
        loss=lambda model, batch: model(batch).square().mean(),
    )
"""


def _talk(folder: Path, talk: Callable[[Client], Awaitable[None]]) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "perfkit_cli", "mcp", "--root", str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )

    async def run() -> None:
        async with Client(server, read_timeout_seconds=_MOST_S) as client:
            await talk(client)

    anyio.run(run)


async def _call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text
    assert not result.is_error, text
    assert len(text) <= 3 * DEFAULT_TOKENS
    content: dict[str, Any] = json.loads(text)
    return content


def test_an_agent_analyzes_simulates_benches_and_checks(tmp_path: Path) -> None:
    training_file(tmp_path / "trace.json")

    async def talk(client: Client) -> None:
        analysis = await _call(client, "analyze", path="trace.json")
        assert analysis["findings"]
        assert (await _call(client, "rows", result=analysis["result"], limit=2))["total"] >= 2
        simulated = await _call(client, "what_if", path="trace.json", changes=["kernels=0.5"])
        assert simulated["traces"][0]["changes"][0]["gain_s"] is not None

        progress: list[float] = []

        async def note(done: float, _total: float | None, _message: str | None) -> None:
            progress.append(done)

        asked = {"workload": "gpt:size=nano", "technique": "ckpt", "device": "cpu", **_TINY}
        result = await client.call_tool("bench", asked, progress_callback=note)
        assert not result.is_error, result.content[0].text
        bench = json.loads(result.content[0].text)
        assert progress
        variants = {variant["name"]: variant for variant in bench["variants"]}
        assert variants["ckpt"]["active"] is True
        assert variants["ckpt"]["verify"].startswith("perfkit bench -w gpt:")
        assert (await _call(client, "rows", result=bench["result"], table="ops", subject="ckpt"))["rows"]
        folder = bench["folder"]
        (report,) = (await client.read_resource(f"perfkit://reports/{folder}")).contents
        assert "ckpt" in report.text

        check = await _call(client, "check", run=folder, baseline=folder, exact=True)
        assert (check["verdict"], check["exit_code"]) == ("pass", 0)

    _talk(tmp_path, talk)


def test_plan_and_advise_run_no_code_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(USER)

    async def talk(client: Client) -> None:
        for tool, arguments in (
            ("plan", {"workload": "train.py:build", "technique": "baseline"}),
            ("advise", {"subject": "train.py:build", "technique": "ckpt"}),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert result.content[0].text.endswith("[usage.user_code]")
        plan = await _call(client, "plan", workload="gpt:size=nano:seq_len=16", technique="ckpt")
        assert plan["variants"][0]["needed_bytes"]["value"] > 0
        explained = await _call(client, "explain", id="usage.user_code")
        assert explained["kind"] == "error"

    _talk(tmp_path, talk)
    assert not (tmp_path / "ran").exists()
