"""`perfkit memory` as a user runs it: a trace recorded here, and what is no recording of memory."""

import json
from pathlib import Path

import torch


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
    assert result.stdout.rstrip().endswith("report: perfkit-memory/trace/report.html")
    folder = perfkit.folder / "perfkit-memory/trace"
    assert {"report.html", "memory.json", "report.md", "tables", "figures"} == {path.name for path in folder.iterdir()}
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
