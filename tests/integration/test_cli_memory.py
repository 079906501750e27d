"""`perfkit memory` as a user runs it: a trace, a snapshot, a timeline, and what is no recording of memory."""

import gzip
import json
import pickle
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from tests.conftest import CommandLine
from tests.fixtures.caching_allocator import CachingAllocator


@pytest.fixture
def perfkit(perfkit_in_process: CommandLine) -> CommandLine:
    return perfkit_in_process


# torch.profiler's own, by its numbers: parameter, optimizer state, input, temporary, activation, gradient, autograd's
# details, and those it could not tell.
TORCHS_CATEGORIES = (
    "parameter",
    "optimizer state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "temporary",
    "unknown",
)


def record(path: Path) -> None:
    """Three steps of a small model on the CPU, as torch's own documentation records memory."""
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16))
    optimizer = torch.optim.Adam(model.parameters())
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, record_shapes=True) as profiler:
        for _ in range(3):
            model(torch.randn(1024, 256)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    profiler.export_chrome_trace(str(path))


def test_a_trace_with_memory_events_becomes_a_report_that_balances(perfkit) -> None:
    record(perfkit.folder / "trace.json")
    result = perfkit("memory", "trace.json", "--static")
    assert result.returncode == 0, result.stderr
    assert "Peak " in result.stdout
    assert len(result.stdout.splitlines()) <= 24
    assert result.stdout.rstrip().endswith("report: perfkit-memory/trace/report.html")
    folder = perfkit.folder / "perfkit-memory/trace"
    written = {"report.html", "memory.json", "report.md", "summary.json", "tables", "figures"}
    assert written == {path.name for path in folder.iterdir()}
    found = json.loads((folder / "memory.json").read_text())
    for account in found["accounts"]:
        assert sum(part["bytes"] for part in account["categories"]) == account["peak_bytes"]
    # The output of the first layer and its ReLU, 2 MiB each, are alive at the peak.
    assert max(account["peak_bytes"] for account in found["accounts"]) > 2 * 1024 * 512 * 4
    # The same file again replaces its own report, and a report can be drawn again from its folder.
    assert perfkit("memory", "trace.json", "--quiet").stdout == "report: perfkit-memory/trace/report.html\n"
    again = perfkit("report", "perfkit-memory/trace", "--out", "again", "--quiet")
    assert again.stdout == "report: again/report.html\n"
    assert (perfkit.folder / "again/report.html").read_text() == (folder / "report.html").read_text()


def test_json_writes_nothing_else(perfkit) -> None:
    record(perfkit.folder / "trace.json")
    result = perfkit("memory", "trace.json", "--json")
    assert json.loads(result.stdout)["file"] == "trace.json"
    assert [path.name for path in perfkit.folder.iterdir()] == ["trace.json"]


def test_what_cannot_be_read_is_refused_in_a_line(perfkit) -> None:
    (perfkit.folder / "notes.txt").write_text("nothing")
    (perfkit.folder / "mine").mkdir()
    (perfkit.folder / "mine/notes.txt").write_text("keep")
    for arguments in (["notes.txt"], ["missing.pickle"], ["notes.txt", "--out", "mine"]):
        result = perfkit("memory", *arguments)
        assert result.returncode in (1, 2), result.stdout
        assert result.stdout == ""
        assert "Traceback" not in result.stderr
        assert arguments[-1] in result.stderr


def snapshot(path: Path) -> int:
    """A snapshot by a model of torch's caching allocator: two steps of training. Its peak in bytes."""
    torch_files = "/opt/lib/python3.11/site-packages/torch"
    calls = {
        "model": [("nn/modules/linear.py", "forward"), ("nn/modules/module.py", "_call_impl")],
        "optimizer": [("optim/adamw.py", "_init_group"), ("optim/adamw.py", "step")],
    }
    stacks = {
        name: [{"filename": f"{torch_files}/{file}", "line": 1, "name": function} for file, function in rows]
        for name, rows in calls.items()
    }
    allocator = CachingAllocator()
    for step in range(2):
        activation = allocator.malloc(40 << 20, stacks["model"])
        gradient = allocator.malloc(3 << 20, [])
        allocator.free(activation)
        if step == 0:
            allocator.malloc(6 << 20, stacks["optimizer"])
        allocator.free(gradient)
    with path.open("wb") as file:
        pickle.dump(allocator.snapshot(), file)
    return allocator.peak


def test_a_snapshot_gives_the_peak_that_the_allocator_counted(perfkit) -> None:
    peak = snapshot(perfkit.folder / "oom.pickle")
    result = perfkit("memory", "oom.pickle")
    assert result.returncode == 0, result.stderr
    assert result.stdout.rstrip().endswith("report: perfkit-memory/oom/report.html")
    (account,) = json.loads((perfkit.folder / "perfkit-memory/oom/memory.json").read_text())["accounts"]
    assert account["device"] == "cuda:0"
    assert account["peak_bytes"] == peak
    parts = {part["category"]: part["bytes"] for part in account["categories"]}
    assert sum(parts.values()) == peak
    assert parts["activation"] == 40 << 20
    assert parts["optimizer state"] == 6 << 20


@pytest.mark.filterwarnings("ignore:.*export_memory_timeline:FutureWarning")
def test_a_raw_timeline_gives_torchs_own_categories(perfkit) -> None:
    model = torch.nn.Linear(512, 512)
    optimizer = torch.optim.Adam(model.parameters())
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(
        activities=activities, profile_memory=True, record_shapes=True, with_stack=True
    ) as profiler:
        for _ in range(2):
            model(torch.randn(64, 512)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    profiler.export_memory_timeline(str(perfkit.folder / "timeline.raw.json.gz"), device="cpu")
    result = perfkit("memory", "timeline.raw.json.gz", "--json")
    assert result.returncode == 0, result.stderr
    (account,) = json.loads(result.stdout)["accounts"]
    told: dict[str, int] = defaultdict(int)
    moments = [{}]
    with gzip.open(perfkit.folder / "timeline.raw.json.gz") as file:
        for _, _, size, category in json.load(file):
            told[TORCHS_CATEGORIES[category]] += size
            moments.append({name: held for name, held in told.items() if held})
    expected = max(moments, key=lambda moment: sum(moment.values()))
    assert {part["category"]: part["bytes"] for part in account["categories"]} == expected
    assert account["peak_bytes"] == sum(expected.values())


def test_a_url_is_read_as_one(perfkit) -> None:
    peak = snapshot(perfkit.folder / "oom.pickle")
    found = perfkit("memory", f"file://{perfkit.folder}/oom.pickle", "--json")
    assert json.loads(found.stdout)["accounts"][0]["peak_bytes"] == peak
    missing = perfkit("memory", f"file://{perfkit.folder}/missing.pickle")
    assert f"file://{perfkit.folder}/missing.pickle" in missing.stderr
    assert "Traceback" not in missing.stderr
