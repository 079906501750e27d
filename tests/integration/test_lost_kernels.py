"""Half of the kernels of a real trace removed or without a time: every form of the report says so."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfkit.core.units import format_percent

WHOLE = Path(__file__).parents[2] / "examples/h100_qwen1.5_forward.json.gz"
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")

Event = dict[str, Any]


def without_half(path: Path, change: Callable[[Event], list[Event]]) -> Path:
    content = json.loads(gzip.decompress(WHOLE.read_bytes()))
    events = content["traceEvents"]
    device = sorted(
        (index for index, each in enumerate(events) if each.get("cat") in DEVICE), key=lambda i: events[i]["ts"]
    )
    half = set(device[::2])
    content["traceEvents"] = [
        event for index, each in enumerate(events) for event in (change(each) if index in half else [each])
    ]
    path.write_bytes(gzip.compress(json.dumps(content).encode(), 1))
    return path


@pytest.mark.parametrize(
    ("change", "share"),
    [
        (lambda _: [], "46.2 %"),  # of fills nothing tells whether they should be there
        pytest.param(lambda each: [{**each, "dur": 0}], "50.0 %", marks=pytest.mark.nightly),
        pytest.param(lambda each: [{**each, "dur": 0, "ts": 0}], "50.0 %", marks=pytest.mark.nightly),
    ],
    ids=["removed", "without a duration", "without a time"],
)
def test_half_of_the_kernels(change: Callable[[Event], list[Event]], share: str, perfkit) -> None:
    without_half(perfkit.folder / "half.json.gz", change)
    printed, out = perfkit("analyze", "half.json.gz").stdout, perfkit.folder / "perfkit-analyze/half"
    page, markdown = (out / "report.html").read_text(), (out / "report.md").read_text()
    analysis = json.loads((out / "analysis.json").read_text())
    (trace,) = analysis["traces"]
    idle = trace["launches"]["idle_s"] / trace["step_s"]
    (lost,) = (finding for finding in analysis["findings"] if finding["id"] == "limit.lost_kernels")
    assert 'id="finding-limit-lost_kernels"' in page
    screen = " ".join(printed.split())
    assert share in screen
    for text in (page.replace("\u00a0", " "), markdown.replace("\\", "")):
        assert share in text
        assert lost["title"] in text
        assert "35.2 ms" in text
        assert "at least 16.5 %" in text  # MFU
        assert f"at most {format_percent(idle)}" in text
        assert "at least 7.27 ms" in text  # to win
    assert trace["lost_kernels"]["share"] == pytest.approx(float(share.split()[0]) / 100, abs=5e-4)
    assert (trace["mfu"]["bound"], trace["hfu"]["bound"], trace["launches"]["idle_bound"]) == (
        "at least",
        "at least",
        "at most",
    )
    bounds = {part["category"]: part["bound"] for part in trace["time_split"]}
    assert (bounds["memory-bound"], bounds["idle waiting for the CPU"], bounds["idle with work queued"]) == (
        "at least",
        "at most",
        "at most",
    )


def test_the_whole_trace_says_nothing(perfkit) -> None:
    printed, out = perfkit("analyze", str(WHOLE), "--out", "whole").stdout, perfkit.folder / "whole"
    analysis = json.loads((out / "analysis.json").read_text())
    (trace,) = analysis["traces"]
    assert "limit.lost_kernels" not in {finding["id"] for finding in analysis["findings"]}
    assert (trace["lost_kernels"]["launched"], trace["lost_kernels"]["lost"]) == (1198, 0)
    for text in (printed, (out / "report.md").read_text()):
        assert "at least" not in text
