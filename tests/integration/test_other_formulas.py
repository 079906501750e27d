"""A package that tells what its own ops cost, as docs/costing.md says."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.fixtures.traces import mark, op, write_trace

COSTS = """
from perfkit.cost.calls.args import count_read_bytes, get_tensor, make_vector_cost, numel

def rmsnorm(args):
    x, weight = get_tensor(args, 0), get_tensor(args, 1)
    nbytes = 2 * count_read_bytes(x) + count_read_bytes(weight)
    return make_vector_cost(4 * numel(x), nbytes, x.dtype, "mylib: 4 FLOPs an element")
"""


def install(site: Path) -> None:
    """`mylib` as pip leaves it."""
    (site / "mylib").mkdir(parents=True)
    (site / "mylib/__init__.py").touch()
    (site / "mylib/costs.py").write_text(COSTS)
    metadata = site / "mylib-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mylib\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[perfkit.formulas]\nmylib::rmsnorm = mylib.costs:rmsnorm\n")


def flops_of(trace: Path, path: str) -> float | None:
    command = [sys.executable, "-m", "perfkit_cli", "analyze", str(trace), "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((path, *sys.path))}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    (row,) = (row for row in json.loads(ended.stdout)["traces"][0]["ops"] if row["name"] == "mylib::rmsnorm")
    flops: float | None = row["flops"]
    return flops


def test_a_package_that_is_installed_tells_what_its_ops_cost(tmp_path: Path) -> None:
    events = [mark("ProfilerStep#1", 0, 1000), op("mylib::rmsnorm", 100, 200, [(64, 128), (128,)])]
    trace = write_trace(tmp_path / "trace.json.gz", events)
    install(tmp_path / "site")
    assert flops_of(trace, "") is None
    assert flops_of(trace, str(tmp_path / "site")) == 4 * 64 * 128
