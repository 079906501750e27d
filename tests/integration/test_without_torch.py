"""The commands that read what others recorded, in a process that cannot import torch; also run where it is missing."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfkit.core.files import write_json
from perfkit.store.summary import ADVICE_FILE, PLAN_FILE
from perfkit_reports.render.images import can_render_images
from tests.fixtures import sample_advice, sample_plans
from tests.fixtures.caching_allocator import CachingAllocator
from tests.fixtures.finished_run import finished_run
from tests.fixtures.flight_dumps import dump, entry

pytestmark = pytest.mark.cold

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "examples/h100_qwen1.5_forward.json.gz"
CHANGED = ROOT / "tests/fixtures/recorded/changed_programs"
BLOCKED = "import sys; sys.modules['torch'] = None; "
COMMAND = BLOCKED + "from perfkit_cli.main import main; main()"
# What imports torch at its first line, at least in part: it trains, measures, plans or asks torch.
TRAINING = (
    "attach", "check", "cost.torch_dispatch", "cost.torch_fakes", "instruments", "integrations", "measure", "plan",
    "suites", "techniques", "tune.patch", "tune.script", "tune.search", "workloads",
)  # fmt: skip
ASKING = (
    "perfkit.cost.live_collectives",
    "perfkit.cost.live_sparse_products",
    "perfkit.cost.live_flops",
    "perfkit.cost.torch_formulas",
    "perfkit.devices.calibration",
    "perfkit.devices.links.time_collectives",
    "perfkit.devices.machine.fp32_precision",
)
# What draws PNG and SVG, where matplotlib is missing as well.
DRAWING = () if can_render_images() else ("perfkit_reports.render.matplotlib_",)
# An element-wise op without a formula of perfkit's.
UNKNOWN = {
    "traceEvents": [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::special_bessel_j0",
            "pid": 1,
            "tid": 1,
            "ts": 0,
            "dur": 500,
            "args": {
                "Input Dims": [[64, 64]],
                "Input type": ["float"],
                "Input Strides": [[64, 1]],
                "Concrete Inputs": [""],
            },
        }
    ]
}


def perfkit(folder: Path, *arguments: str | Path, code: str = COMMAND) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PERFKIT_CACHE": str(folder)},
    )


def read_json(ended: subprocess.CompletedProcess[str]) -> Any:
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_every_module_that_reads_what_was_recorded(tmp_path: Path) -> None:
    code = (
        BLOCKED
        + "import pkgutil, importlib\n"
        + f"left_out = {tuple(f'perfkit.{name}' for name in TRAINING) + ASKING + DRAWING}\n"
        + "import perfkit, perfkit_reports\n"
        + "names = [module.name for package in (perfkit, perfkit_reports)\n"
        + "    for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.', onerror=lambda _: None)]\n"
        + "names = [name for name in names if not name.startswith(left_out) and name != 'perfkit.run']\n"
        + "for name in names: importlib.import_module(name)\n"
        + "print(len(names))"
    )
    ended = perfkit(tmp_path, code=code)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 400


def test_a_trace(tmp_path: Path) -> None:
    found = read_json(perfkit(tmp_path, "analyze", TRACE, "--json"))
    assert found["traces"][0]["coverage"]["flops_s"] > 0
    for arguments in (("analyze", TRACE, "--out", "out"), ("report", "out", "--out", "again")):
        ended = perfkit(tmp_path, *arguments)
        assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "again/report.html").stat().st_size


def test_figures_without_what_draws_them(tmp_path: Path) -> None:
    code = "import sys; sys.modules['matplotlib'] = None; " + COMMAND
    ended = perfkit(tmp_path, "analyze", TRACE, "--static", code=code)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.endswith("[skip.package]\n")
    assert not [*tmp_path.glob("perfkit-analyze/*")]


def test_two_traces(tmp_path: Path) -> None:
    before, after = (CHANGED / f"half_the_layers.{side}.json.gz" for side in ("before", "after"))
    found = read_json(perfkit(tmp_path, "analyze", after, "--against", before, "--json"))
    assert found["difference"] is not None
    assert not any(note["id"] == "trace.without_torch" for note in found["traces"][0]["notes"])


def test_an_op_that_only_torch_knows_is_said_to_be_unknown(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(json.dumps(UNKNOWN))
    blocked, allowed = (
        read_json(perfkit(tmp_path, "analyze", "trace.json", "--out", name, "--json", code=code))["traces"][0]
        for name, code in (("blocked", COMMAND), ("allowed", COMMAND.removeprefix(BLOCKED)))
    )
    notes = {note["id"]: note["figures"] for note in blocked["notes"]}
    assert notes["trace.without_torch"] == {"ops": 1}
    assert blocked["coverage"]["bytes_s"] == 0
    assert [row["name"] for row in blocked["coverage"]["uncovered"]] == ["aten::special_bessel_j0"]
    pytest.importorskip("torch")
    assert allowed["coverage"]["bytes_s"] > 0
    assert "trace.without_torch" not in [note["id"] for note in allowed["notes"]]


def test_a_snapshot(tmp_path: Path) -> None:
    allocator = CachingAllocator()
    allocator.free(allocator.malloc(3 << 20))
    allocator.malloc(1 << 20)
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps(allocator.snapshot()))
    found = read_json(perfkit(tmp_path, "memory", "snapshot.pickle", "--json"))
    assert max(allocator.history) in [account["peak_bytes"] for account in found["accounts"]]


def test_flight_recorders(tmp_path: Path) -> None:
    for rank in range(2):
        entries = [entry(number, ended=rank == 0) for number in range(3)]
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(dump(*entries), 2))
    ended = perfkit(tmp_path, "analyze", "nccl_trace_rank_0", "nccl_trace_rank_1", "--json")
    assert read_json(ended)


def test_stored_runs_and_plans(tmp_path: Path) -> None:
    for name in ("old", "new"):
        finished_run(tmp_path / name)
    assert read_json(perfkit(tmp_path, "check", "new", "--baseline", "old", "--exact", "--json"))["verdict"]
    assert read_json(perfkit(tmp_path, "compare", "old", "new", "--json"))
    for arguments in (("report", "old"), ("findings",), ("explain", "sync.item"), ("schema", "analysis"), ("devices",),
                      ("mfu", "llama-3-8b", "--seq", "8192", "--claimed", "57.9GFLOP"), ("mfu", TRACE)):  # fmt: skip
        ended = perfkit(tmp_path, *arguments)
        assert ended.returncode == 0, ended.stderr
    write_json(tmp_path / "plan" / PLAN_FILE, sample_plans.realistic())
    write_json(tmp_path / "advice" / ADVICE_FILE, sample_advice.realistic())
    for folder in ("plan", "advice"):
        ended = perfkit(tmp_path, "report", folder)
        assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench",),
        ("plan", "-w", "gpt", "-t", "amp"),
        ("calibrate", "--device", "cpu"),
        ("check", "--update", "-w", "gpt"),
        ("techniques", "--json"),
    ],
)
def test_what_needs_torch_says_so_in_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    ended = perfkit(tmp_path, *arguments)
    assert ended.returncode in (1, 2)
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.endswith("[error.no_torch]\n")
    assert not [*tmp_path.glob("runs/*")]
    if "--json" in arguments:
        assert json.loads(ended.stdout)["error"]["id"] == "error.no_torch"


def test_a_program_is_not_run_for_nothing(tmp_path: Path) -> None:
    # What `perfkit run` becomes.
    code = f"{BLOCKED}from perfkit_cli.run_script.program_runner import main; main([])"
    assert perfkit(tmp_path, "train.py", code=code).stderr.endswith("[error.no_torch]\n")


@pytest.mark.parametrize("called", ["bench", "profile", "plan('gpt')", "check(against_ref='HEAD')"])
def test_the_library_says_so_too(tmp_path: Path, called: str) -> None:
    code = f"{BLOCKED}import perfkit\ntry: perfkit.{called}\nexcept perfkit.PerfkitError as error: print(error.id)"
    assert perfkit(tmp_path, code=code).stdout == "error.no_torch\n"
