"""The package in examples/plugin, installed by pip, adds a technique, a workload and the cost of an op."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CommandLine

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"
WIDTH = 32


@pytest.fixture
def report(perfkit: CommandLine, tiny_schedule: tuple[str, ...]) -> dict[str, Any]:
    """What a bench of the package's own workload and technique finds."""
    source, site = perfkit.folder / "plugin", perfkit.folder / "site"
    shutil.copytree(PLUGIN, source)  # building leaves files beside the sources
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True, timeout=120)
    perfkit.environment["PYTHONPATH"] = os.pathsep.join((str(site), *sys.path))
    ended = perfkit("bench", "-w", f"mlp:width={WIDTH}", "-t", "fused_update", "--out", "suite", *tiny_schedule)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads((perfkit.folder / "suite" / "report.json").read_text())
    return found


@pytest.mark.nightly
def test_what_it_adds_is_used_as_if_it_were_perfkits_own(report: dict[str, Any]) -> None:
    variants = {variant["name"]: variant for variant in report["variants"]}
    assert variants["fused_update"]["active"] is True
    for variant in variants.values():
        ops = {op["name"]: op for op in variant["trace"]["ops"] if op["phase"] == "forward"}
        # A batch of 32 and a hidden layer 4 times as wide, 2 FLOPs an element.
        assert ops["example::squared_relu"]["flops"] == 2 * 32 * 4 * WIDTH


def test_it_is_short() -> None:
    files = [PLUGIN / "pyproject.toml", *PLUGIN.glob("perfkit_example/*.py")]
    assert sum(bool(line.strip()) for path in files for line in path.read_text().splitlines()) < 60
