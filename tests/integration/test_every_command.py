"""Every command once, as installed: what a wheel can lack (templates, data files, entry points) shows here.

`.ci/run` runs these against the built wheel; all else is tested in the checkout.
"""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfkit_cli.main import COMMANDS
from tests.conftest import TINY
from tests.fixtures.endpoints import free_endpoint
from tests.fixtures.pods import arguments_of_pod
from tests.integration.test_cli_check import git, prepare, write

pytestmark = pytest.mark.smoke

TRAIN = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(40):
    loss = model(torch.randn(8, 32)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


RUNNING = """
import ctypes, sys, time

if sys.platform == "linux":  # any process may look: PR_SET_PTRACER, PR_SET_PTRACER_ANY
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)

def busy():
    while True:
        sum(range(1000))

print("running", flush=True)
busy()
"""


def reported(perfkit: Any, folder: str, *arguments: str | Path) -> None:
    """The command ends well and leaves a page with its style, its script and plotly.js in it."""
    ended = perfkit(*arguments)
    assert ended.returncode == 0, ended.stderr
    page = (perfkit.folder / folder / "report.html").read_text(encoding="utf-8")
    for part in ("<style>", "plotly.js (basic - minified)", "plotTheme"):
        assert part in page


def listed(*arguments: str) -> Callable[..., None]:
    def one(perfkit: Any, suite: Path) -> None:
        ended = perfkit(*arguments)
        assert ended.returncode == 0, ended.stderr
        assert len(ended.stdout.splitlines()) > 3

    return one


def bench(perfkit: Any, suite: Path) -> None:
    assert {"baseline", "amp", "ckpt"} <= perfkit.variants("suite").keys()
    assert "baseline" in (suite / "report.md").read_text()
    assert (suite / "tables/variants.parquet").stat().st_size


def run(perfkit: Any, suite: Path) -> None:
    (perfkit.folder / "train.py").write_text(TRAIN)
    reported(perfkit, "watched", "run", "--out", "watched", "train.py")


def attach(perfkit: Any, suite: Path) -> None:
    (perfkit.folder / "running.py").write_text(RUNNING)
    with subprocess.Popen([sys.executable, perfkit.folder / "running.py"], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            arguments = ("attach", str(process.pid), "--duration", "1s", "--out", "process")
            reported(perfkit, "process", *arguments)
        finally:
            process.kill()
    assert "busy" in (perfkit.folder / "process/report.md").read_text()


def analyze(perfkit: Any, suite: Path) -> None:
    reported(perfkit, "trace", "analyze", suite / "baseline/0/rank0/trace.json.gz", "--out", "trace", "--static")
    assert (perfkit.folder / "trace/figures/time-split.png").stat().st_size


def merge(perfkit: Any, suite: Path) -> None:
    ended = perfkit("analyze", suite / "baseline/0/rank0/trace.json.gz", "--part", "1/1", "--into", "parts")
    assert ended.returncode == 0, ended.stderr
    reported(perfkit, "merged", "merge", "parts", "--out", "merged")


def memory(perfkit: Any, suite: Path) -> None:
    reported(perfkit, "memory", "memory", suite / "baseline/0/rank0/memory.parquet", "--out", "memory")


def check(perfkit: Any, suite: Path) -> None:
    reported(perfkit, "check", "check", suite, "--baseline", suite, "--exact", "--out", "check")


def bisect(perfkit: Any, suite: Path) -> None:
    """Two commits, of which the second does more."""
    prepare(perfkit)
    write(perfkit.folder, "y = y + torch.softmax(y, -1) * 0")
    git(perfkit.folder, "commit", "-a", "-m", "second")
    reported(perfkit, "found", "bisect", "--good", "HEAD~1", "--exact", "--out", "found")


def compare(perfkit: Any, suite: Path) -> None:
    reported(perfkit, "compared", "compare", suite, suite, "--out", "compared")


def report(perfkit: Any, suite: Path) -> None:
    (suite / "report.html").unlink()
    reported(perfkit, "suite", "report", suite)


def view(perfkit: Any, suite: Path) -> None:
    process = perfkit.start("view", suite.parent, "--port", "0")
    address = re.search(r"http://\S+", process.stdout.readline())
    with urllib.request.urlopen(address[0]) as answer:
        scripts = re.findall(r'src="/(assets/[^"]+)"', answer.read().decode())
    for script in scripts:
        with urllib.request.urlopen(address[0] + script) as answer:
            assert answer.read()
    assert scripts
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def calibrate(perfkit: Any, suite: Path) -> None:
    ended = perfkit("calibrate", "--device", "cpu", "--threads", "1", "--short")
    assert ended.returncode == 0, ended.stderr
    assert "GB/s" in ended.stdout


def plan(perfkit: Any, suite: Path) -> None:
    ended = perfkit("plan", "-w", "gpt:size=nano:seq_len=16", "-t", "zero3", "--world-size", "2,3", "--json")
    assert ended.returncode == 0, ended.stderr
    variants = json.loads(ended.stdout)["variants"]
    assert [variant["name"] for variant in variants] == ["baseline@2", "zero3@2", "baseline@3", "zero3@3"]
    for variant in variants:
        assert variant["step_s"] or variant["step_reason"]
        peak = variant["peak_allocated_bytes"]
        assert sum(peak["categories"].values()) == peak["value"] > 0


def advise(perfkit: Any, suite: Path) -> None:
    out = suite.with_name("verified")
    ended = perfkit("advise", str(suite), "-t", "ckpt", "--verify", "1", "--out", str(out), "--quiet")
    assert ended.returncode == 0, ended.stderr
    assert (out / "advice" / "report.html").is_file()
    advice = json.loads((out / "advice" / "advice.json").read_bytes())
    (ckpt,) = advice["options"]
    assert ckpt["saving_s"]["basis"] == "simulated"
    assert ckpt["saving_s"]["value"] < 0
    assert ckpt["peak_bytes"]["value"] == pytest.approx(ckpt["measured"]["peak_bytes"], rel=0.01)
    assert ckpt["measured"]["active"] is True
    assert (out / "suite.json").is_file()


def tune(perfkit: Any, suite: Path) -> None:
    """Nothing that is offered promises a gain, so that only the baseline runs."""
    small = ("-w", "gpt:size=nano", "--batch-size", "1", "--seq-len", "8", "--threads", "1", "--no-calibrate")
    reported(perfkit, "tuned", "tune", *small, "-t", "ckpt", "--budget", "30s", "--out", "tuned")
    result = json.loads((perfkit.folder / "tuned/tune.json").read_text())
    assert (result["best"], result["trials"]) == ("", [])
    assert [each["variant"] for each in result["untried"]] == ["ckpt"]


def join(perfkit: Any, suite: Path) -> None:
    """What the pods of a manifest run, which know each other by other names."""
    pods = ("--launcher", "kubernetes", "--image", "mine", "--volume-claim", f"runs:{perfkit.folder}")
    machines = ("--device", "cpu", "--nnodes", "2", "--world-size", "2", "--threads", "1", "--out", "two")
    manifest = perfkit("bench", *TINY, "-t", "baseline", *pods, *machines).stdout
    manifest = manifest.replace("perfkit-two-0.perfkit-two:29500", free_endpoint())
    first, second = (arguments_of_pod(manifest, index, perfkit.folder) for index in range(2))
    perfkit.environment["GLOO_SOCKET_IFNAME"] = "lo"
    other = perfkit.start(*second)
    ended = perfkit(*first)
    assert ended.returncode == 0, ended.stderr
    baseline = perfkit.variants("two")["baseline@2"]
    assert baseline["status"] == "ok"
    assert [each["rank"] for each in baseline["ranks"]] == [0, 1]
    assert all(row["wait_s"] is not None for row in baseline["fleet"]["ranks"])
    (reduced,) = (row for row in baseline["volumes"] if row["kind"] == "all-reduce")
    assert 0 < reduced["message_bytes"] == reduced["theoretical_bytes"] == reduced["traced_bytes"]  # 2 (N - 1) / N is 1
    assert "two/baseline@2/0" in other.communicate(timeout=60)[1]
    assert other.returncode == 0


ONCE: dict[str, Callable[..., None]] = {
    "bench": bench,
    "run": run,
    "attach": attach,
    "join": join,
    "analyze": analyze,
    "merge": merge,
    "memory": memory,
    "check": check,
    "bisect": bisect,
    "compare": compare,
    "report": report,
    "view": view,
    "calibrate": calibrate,
    "plan": plan,
    "advise": advise,
    "tune": tune,
    "explain": listed("explain", "sync.item"),
    "mfu": listed("mfu", "llama-3-8b", "--seq", "8192", "--tokens-per-s", "5762", "--gpu", "h100"),
    "mcp": listed("mcp", "--skill"),
    **{name: listed(name) for name in ("techniques", "findings", "schema", "workloads", "devices")},
}


# Between ranks nothing is asked of a wheel that one process does not ask.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.nightly) if name == "join" else name for name in COMMANDS]
)
def test_it_works_as_installed(perfkit: Any, suite: Path, name: str) -> None:
    ONCE[name](perfkit, suite)


@pytest.mark.nightly
def test_links_between_ranks_are_measured(perfkit: Any) -> None:
    between = perfkit("calibrate", "--device", "cpu", "--world-size", "2", "--short")
    assert between.returncode == 0, between.stderr
    assert all(name in between.stdout for name in ("all-reduce", "all-gather", "all-to-all", "16.0 MiB", "GB/s"))
