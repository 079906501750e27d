"""`perfkit analyze` as a user runs it: good traces, damaged ones, many ranks, comparisons, devices."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CommandLine
from tests.fixtures.gpu_traces import STEP_US, N, training_file
from tests.fixtures.graph_captures import captures, decoder, replays, write_events
from tests.fixtures.traces import op


@pytest.fixture
def perfkit(perfkit_in_process: CommandLine) -> CommandLine:
    return perfkit_in_process


def advice(found: dict[str, Any]) -> str:
    """What to do about an unknown device."""
    (finding,) = (each for each in found["findings"] if each["id"] == "limit.no_ceilings")
    return finding["action"]


def analysis(result: Any) -> dict[str, Any]:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_trace_becomes_a_report(perfkit) -> None:
    training_file(perfkit.folder / "trace.json.gz")
    result = perfkit("analyze", "trace.json.gz")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "400 us" in result.stdout
    assert len(result.stdout.splitlines()) <= 24
    assert result.stdout.rstrip().endswith("report: perfkit-analyze/trace/report.html")
    folder = perfkit.folder / "perfkit-analyze/trace"
    assert {"report.html", "analysis.json", "report.md", "tables"} <= {path.name for path in folder.iterdir()}
    assert "perfkit analyze trace.json.gz" in (folder / "report.html").read_text()
    # The same trace again replaces its own report.
    assert perfkit("analyze", "trace.json.gz", "--quiet").stdout == "report: perfkit-analyze/trace/report.html\n"


def test_the_figures_of_a_trace_that_can_be_added_up_by_hand(perfkit) -> None:
    training_file(perfkit.folder / "trace.json.gz")
    found = analysis(perfkit("analyze", "trace.json.gz", "--json"))
    (trace,) = found["traces"]
    assert len(trace["steps"]) == 3
    assert trace["step_s"] == pytest.approx(STEP_US * 1e-6, rel=0.3)
    assert sum(part["share"] for part in trace["time_split"]) == pytest.approx(1)
    product = next(row for row in trace["kernels"] if "gemm" in row["name"])
    assert product["flops"] == pytest.approx(2 * N**3)
    assert product["seconds"] == pytest.approx(100e-6)
    assert product["attainable_s"] == pytest.approx(2 * N**3 / 989.4e12, rel=1e-3)
    assert product["op"] == "aten::mm"
    assert found["fleet"] is None
    assert found["difference"] is None
    assert {row["figure"] for row in found["provenance"]} >= {"events", "durations", "FLOPs and bytes", "ceilings"}
    assert [path.name for path in perfkit.folder.iterdir()] == ["trace.json.gz"], "--json writes nothing else"


def test_a_report_is_drawn_again_from_its_folder(perfkit) -> None:
    training_file(perfkit.folder / "trace.json")
    assert perfkit("analyze", "trace.json", "--out", "one", "-q").returncode == 0
    (perfkit.folder / "trace.json").unlink()
    result = perfkit("report", "one", "--out", "two", "-q")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "report: two/report.html\n"
    assert (perfkit.folder / "two/analysis.json").read_bytes() == (perfkit.folder / "one/analysis.json").read_bytes()


def test_a_folder_of_ranks(perfkit) -> None:
    for rank, late in enumerate((0.0, 0.0, 30.0)):
        training_file(perfkit.folder / f"job/rank{rank}.json.gz", rank=rank, world_size=3, late_us=late)
    (perfkit.folder / "job/rank3.json.gz").write_bytes(b"\x1f\x8b nothing of the kind")
    found = analysis(perfkit("analyze", "job", "--json", "--jobs", "2"))
    assert [trace["rank"] for trace in found["traces"]] == [0, 1, 2]
    assert [row["rank"] for row in found["fleet"]["ranks"]] == [0, 1, 2]
    assert found["fleet"]["straggler"].endswith("2")
    assert any("rank3" in note["text"] for note in found["warnings"])
    assert perfkit("analyze", "job", "-q").stdout == "report: perfkit-analyze/job/report.html\n"


def test_against_says_what_changed(perfkit) -> None:
    training_file(perfkit.folder / "before.json")
    training_file(perfkit.folder / "after.json", slower=1.5)
    difference = analysis(perfkit("analyze", "after.json", "--against", "before.json", "--json"))["difference"]
    largest = difference["changes"][0]
    assert largest["name"] == "aten::mm"
    assert largest["after_s"] - largest["before_s"] == pytest.approx(50e-6)


def test_an_unknown_device_gets_no_percentages_and_advice(perfkit) -> None:
    training_file(perfkit.folder / "trace.json", device="NVIDIA H999", units=7)
    found = analysis(perfkit("analyze", "trace.json", "--json"))
    assert found["traces"][0]["ceilings"]["ceilings"] == []
    assert "NVIDIA H999" in advice(found)
    assert found["warnings"] == []
    assert all(row["attainable_s"] is None for row in found["traces"][0]["kernels"])
    assert perfkit("analyze", "trace.json").returncode == 0


def test_device_overrides_what_the_trace_says(perfkit) -> None:
    training_file(perfkit.folder / "trace.json", device="")
    found = analysis(perfkit("analyze", "trace.json", "--device", "a100-sxm-80gb", "--json"))
    assert found["traces"][0]["device_name"] == "NVIDIA A100-SXM4-80GB"
    assert found["traces"][0]["device_basis"] == "given with --device"
    product = next(row for row in found["traces"][0]["kernels"] if "gemm" in row["name"])
    assert product["attainable_s"] == pytest.approx(2 * N**3 / 312e12, rel=1e-3)


def test_captures_tell_the_ops_of_replayed_graphs(perfkit) -> None:
    nodes = decoder(8)
    write_events(perfkit.folder / "replay.json.gz", replays([("step[DECODE bs=8 toks=8]", 8, nodes)] * 2))
    write_events(perfkit.folder / "captured/capture.json.gz", captures([("", nodes)]))
    (trace,) = analysis(perfkit("analyze", "replay.json.gz", "--capture", "captured/", "--json"))["traces"]
    assert [(graph["joined_nodes"], graph["nodes"]) for graph in trace["graphs"]] == [(19, 19)]
    assert trace["graphs"][0]["launches"] == 2
    shown = perfkit("analyze", "replay.json.gz", "--capture", "captured/", "--verbose")
    assert shown.returncode == 0, shown.stderr
    assert "38" in shown.stdout
    write_events(perfkit.folder / "other.json.gz", captures([("", decoder(8, layers=9))]))
    refused = perfkit("analyze", "replay.json.gz", "--capture", "other.json.gz")
    assert refused.returncode == 2
    assert all(told in refused.stderr for told in ("other.json.gz", "replay.json.gz", "19", "55"))


def test_a_part_of_a_gpu_is_not_held_against_the_whole(perfkit) -> None:
    training_file(perfkit.folder / "trace.json", device="AMD Instinct MI300X", units=38)
    found = analysis(perfkit("analyze", "trace.json", "--json"))
    assert found["traces"][0]["ceilings"]["ceilings"] == []
    assert "38" in advice(found)


def test_a_trace_of_a_cpu(perfkit) -> None:
    events = [op("aten::mm", 10 * index, 8, [(64, 64), (64, 64)]) for index in range(50)]
    (perfkit.folder / "cpu.json").write_text(json.dumps({"traceEvents": events}))
    found = analysis(perfkit("analyze", "cpu.json", "--json"))
    assert found["traces"][0]["device"] == "cpu"
    assert found["traces"][0]["ops"][0]["name"] == "aten::mm"
    assert "--device here" in advice(found)
    assert perfkit("analyze", "cpu.json").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.json"], "nowhere.json"),
        (["trace.json", "--device", "h100-sxn"], "'h100-sxm'"),
        (["trace.json", "--engine", "rey"], "'ray'"),
        (["trace.json", "--max-bytes", "lots"], "--max-bytes: 'lots'"),
        (["trace.json", "other.json", "--counters", "ncu.csv"], "--counters"),
        (["trace.json", "--against", "nowhere.json"], "nowhere.json"),
        (["trace.json", "--counters", "ncu.csv"], "ncu.csv"),
        (["trace.json", "--out", "mine"], "--out"),
        ([], "TRACE"),
    ],
    ids=" ".join,
)
def test_a_wrong_request_says_what_would_be_right(perfkit, arguments: list[str], said: str) -> None:
    for name in ("trace.json", "other.json"):
        training_file(perfkit.folder / name)
    (perfkit.folder / "mine").mkdir()
    (perfkit.folder / "mine/precious").write_text("do not lose me")
    result = perfkit("analyze", *arguments)
    assert result.returncode == 2, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert [path.name for path in (perfkit.folder / "mine").iterdir()] == ["precious"]


def test_a_trace_above_the_limit_is_refused_with_the_option_that_raises_it(perfkit) -> None:
    training_file(perfkit.folder / "trace.json", steps=2000)
    result = perfkit("analyze", "trace.json", "--max-bytes", "100kB", "--json")
    assert result.returncode == 2
    assert "--max-bytes" in result.stderr
    assert json.loads(result.stdout)["error"]["id"] == "file.unreadable"
    assert perfkit("analyze", "trace.json", "--max-bytes", "100MB", "-q").returncode == 0


def test_analysing_needs_no_torch(perfkit_process, tmp_path: Path) -> None:
    """Torch takes seconds to import; ops of the table need none of it."""
    training_file(perfkit_process.folder / "trace.json.gz")
    (tmp_path / "hidden/torch").mkdir(parents=True)
    (tmp_path / "hidden/torch/__init__.py").write_text("raise ImportError('torch was imported')\n")
    perfkit_process.environment["PYTHONPATH"] = str(tmp_path / "hidden")
    result = perfkit_process("analyze", "trace.json.gz")
    assert result.returncode == 0, result.stderr
