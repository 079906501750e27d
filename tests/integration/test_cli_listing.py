"""`perfkit techniques`, `perfkit workloads`, help and version."""

import json
import subprocess
import sys

import pytest


def test_workloads_have_one_line_each_and_the_same_as_json(perfkit) -> None:
    lines = perfkit("workloads").stdout.splitlines()
    names = {"gpt", "resnet", "hf:CONFIG", "FILE.py:FUNCTION"}
    assert names <= {line.split()[0] for line in lines}
    items = json.loads(perfkit("workloads", "--json").stdout)["workloads"]
    assert [item["name"] for item in items] == [line.split()[0] for line in lines]
    for item, line in zip(items, lines, strict=True):
        assert item["summary"] in line
        assert item["unavailable"] is None or item["unavailable"] in line
        assert all(f"{name}=" in line for name in item["parameters"])


def test_techniques_are_listed_with_what_the_json_says(perfkit) -> None:
    printed = perfkit("techniques").stdout
    items = json.loads(perfkit("techniques", "--json").stdout)["techniques"]
    assert {"amp", "ckpt", "offload", "zero1", "zero2", "zero3", "flash", "compile"} <= {item["name"] for item in items}
    words = " ".join(printed.split())
    for item in items:
        assert item["summary"] in words
        assert item["unavailable"] is None or item["unavailable"] in words
        assert all(f"{name}=" in words for name in item["parameters"])


@pytest.mark.cold
def test_help_of_every_command_needs_no_torch() -> None:
    program = """
import sys
from click.testing import CliRunner
from perfkit_cli.main import COMMANDS, commands
for arguments in (["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)):
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 0, result.output
heavy = {"torch", "numpy", "pandas", "plotly", "matplotlib", "scipy", "duckdb"} & set(sys.modules)
sys.exit(f"help imports {heavy}" if heavy else 0)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_broken_pipe_is_no_error(perfkit) -> None:
    process = perfkit.start("techniques")
    process.stdout.close()
    err = process.stderr.read()
    process.wait(timeout=60)
    assert "Traceback" not in err
