"""Several files to one analysis: what is kept, what is told, and what happens when some cannot be read."""

import json
from pathlib import Path

import msgspec
import pytest

from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline import trace_results
from perfkit.analysis.pipeline.trace_analysis import TraceProgress, analyze_traces
from perfkit.core.errors import RunFormatError, UsageError
from perfkit.core.text_blocks import ReadLimits
from perfkit.devices.ceilings.ceiling import CeilingLevel
from tests.fixtures.gpu_traces import N, training_events, training_file
from tests.fixtures.traces import Event, kernel, launch, mark, memory, op, write_trace


def ranks(folder: Path, count: int) -> list[str]:
    return [str(training_file(folder / f"rank{rank}.json.gz", rank=rank, world_size=count)) for rank in range(count)]


def test_one_trace(tmp_path: Path) -> None:
    seen: list[TraceProgress] = []
    path = training_file(tmp_path / "step.pt.trace.json.gz")
    found = analyze_traces([str(path)], command="perfkit analyze x", progress=seen.append)
    assert found.title.endswith(f" {found.traces[0].device_name}")
    assert found.command == "perfkit analyze x"
    assert found.fleet is None
    assert found.warnings == ()
    known = found.traces[0].ceilings
    assert known is not None
    assert known.find(CeilingLevel.MATRIX, "bf16") is not None
    assert [(read.number, read.total, read.error) for read in seen] == [(1, 1, "")]
    assert seen[0].json_bytes == found.traces[0].file_info.json_bytes > 0
    assert msgspec.json.decode(msgspec.json.encode(found), type=TraceAnalysis) == found


@pytest.mark.slow
def test_files_come_back_in_the_order_of_their_names_and_make_a_fleet(tmp_path: Path) -> None:
    found = analyze_traces([str(tmp_path / "job")] if ranks(tmp_path / "job", 3) else [], jobs=2)
    assert [trace.rank for trace in found.traces] == [0, 1, 2]
    assert found.fleet is not None
    assert len(found.fleet.ranks) == 3
    assert found.title.startswith("3 ")


def test_a_file_that_cannot_be_read_is_left_out_with_a_warning(tmp_path: Path) -> None:
    paths = ranks(tmp_path, 2)
    broken = tmp_path / "rank2.json"
    broken.write_text("nothing of the kind")
    seen: list[TraceProgress] = []
    found = analyze_traces([*paths, str(broken)], jobs=1, progress=seen.append)
    assert len(found.traces) == 2
    assert [warning.id for warning in found.warnings if str(broken) in warning.text] == ["trace.skipped"]
    assert [bool(read.error) for read in seen] == [False, False, True]


def test_where_none_can_be_read_the_first_error_is_told(tmp_path: Path) -> None:
    paths = []
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("nothing of the kind")
        paths.append(str(tmp_path / name))
    with pytest.raises(RunFormatError, match=r"\b2 traces\b.*a\.json"):
        analyze_traces(paths, jobs=1)
    with pytest.raises(RunFormatError, match=r"a\.json"):
        analyze_traces(paths[:1])


def test_a_trace_without_events_is_no_trace_to_analyse(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"traceEvents": []}')
    with pytest.raises(RunFormatError, match=r"empty\.json"):
        analyze_traces([str(path)])


def test_launches_without_kernels_are_not_taken_for_a_cpus_work_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "host.json"
    events = [event for event in training_events() if event["cat"] != "kernel"]
    path.write_text(json.dumps({"traceEvents": events}))
    found = analyze_traces([str(path)], device="h100-sxm")
    (trace,) = found.traces
    assert "kernels" in trace.missing_device_reason
    assert "trace.unseen_device" in [note.id for note in trace.notes]
    assert found.findings[0].severity == "warning"
    assert found.findings[0].id == "limit.missing_kernels"
    # Times of the host are held against no roof of a device, and nothing is said to be won.
    assert trace.ceilings is None
    assert not trace.points
    assert all(row.attainable_s is None for row in (*trace.ops, *trace.kernels))
    assert not any(finding.severity == "gain" for finding in found.findings)
    assert not found.warnings


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (
            [op("aten::mm", 0, 20, [(8, 8), (8, 8)]), memory(5, 4096, 256, 1, 256)],
            "cuda:0",
        ),
        (
            [op("aten::cudnn_convolution", 0, 20, [(1, 3, 8, 8), (4, 3, 3, 3)])],
            "aten::cudnn_convolution",
        ),
        ([op("aten::mm", 0, 20, [(8, 8), (8, 8)]), mark("nccl:broadcast", 30, 9)], "nccl:broadcast"),
        ([op("aten::mm", 0, 20, [(8, 8), (8, 8)]), mark("gloo:broadcast", 30, 9)], ""),
        ([op("aten::mm", 0, 20, [(8, 8), (8, 8)]), memory(5, 4096, 256, 0, 256)], ""),
        ([op("aten::mm", 0, 20, [(8, 8), (8, 8)]), op("aten::cudnn_is_acceptable", 30, 1, [(8, 8)])], ""),
    ],
)
def test_memory_and_ops_of_a_gpu_tell_that_it_was_used(tmp_path: Path, events: list[Event], why: str) -> None:
    """A program that uses a GPU, recorded with ProfilerActivity.CPU alone."""
    (trace,) = analyze_traces([str(write_trace(tmp_path / "cpu.json", events))]).traces
    assert bool(trace.missing_device_reason) is bool(why)
    assert why in trace.missing_device_reason


def test_copies_are_not_counted_as_kernels(tmp_path: Path) -> None:
    events = [
        op("aten::mm", 0, 20, [(8, 8), (8, 8)]), launch(1, 5), kernel("gemm", 1, 10, 20), launch(2, 12),
        kernel("Memcpy HtoD (Pageable -> Device)", 2, 40, 5, cat="gpu_memcpy"),
    ]  # fmt: skip
    (trace,) = analyze_traces([str(write_trace(tmp_path / "one.json", events))]).traces
    assert trace.launches is not None
    assert trace.launches.kernels == 1


def test_a_file_that_breaks_off_before_its_kernels_is_no_cpus_work(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    events = json.dumps([event for event in training_events() if event["cat"] == "cpu_op"])
    head = '{"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}], "traceEvents": '
    path.write_text(head + events[:-1])
    (trace,) = analyze_traces([str(path)]).traces
    assert trace.missing_device_reason
    path.write_text(head + events + "}")
    (trace,) = analyze_traces([str(path)]).traces
    assert not trace.missing_device_reason
    assert [note.id for note in trace.notes if "NVIDIA A100-SXM4-80GB" in note.text] == ["trace.unused_device"]


def test_two_files_of_one_rank_can_be_told_apart(tmp_path: Path) -> None:
    paths = [str(training_file(tmp_path / name, rank=3)) for name in ("a.json", "b.json")]
    assert [trace.label for trace in analyze_traces(paths, jobs=1).traces] == ["rank 3 (a)", "rank 3 (b)"]


def test_traces_of_different_devices_are_held_against_their_own(tmp_path: Path) -> None:
    one = training_file(tmp_path / "a.json", rank=0)
    two = training_file(tmp_path / "b.json", rank=1, device="NVIDIA A100-SXM4-80GB", units=108)
    found = analyze_traces([str(one), str(two)], jobs=1)
    assert "trace.different_devices" in [warning.id for warning in found.warnings]
    products = [next(row for row in trace.kernels if "gemm" in row.name) for trace in found.traces]
    attainable = [row.attainable_s for row in products]
    assert attainable == [pytest.approx(2 * N**3 / 989.4e12), pytest.approx(2 * N**3 / 312e12)]


def test_of_many_ranks_only_the_first_keep_all_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_results, "WHOLE_RANKS", 1)
    monkeypatch.setattr(trace_results, "ROWS_OF_OTHER_RANKS", 1)
    found = analyze_traces(ranks(tmp_path, 2), jobs=1)
    assert [len(trace.kernels) for trace in found.traces] == [3, 1]
    assert found.traces[1].time_split == found.traces[0].time_split
    assert ("trace.shortened_ranks", {"traces": 2, "whole": 1}) in [(one.id, one.figures) for one in found.warnings]


def test_the_same_rank_is_compared(tmp_path: Path) -> None:
    after = training_file(tmp_path / "after.json", rank=1, slower=1.5)
    before = ranks(tmp_path / "before", 3)
    found = analyze_traces([str(after)], against=before)
    assert found.difference is not None
    assert found.difference.before_trace.rank == 1
    assert found.difference.before == "rank1"
    assert found.difference.after == found.traces[0].label == "after"
    assert found.warnings == ()
    other = analyze_traces([str(after)], against=before[:1])
    assert other.difference is not None
    noted = {note.id: note.figures for note in other.difference.notes}
    assert noted["difference.ranks"] == {"before": "0", "after": "1"}


def test_a_comparison_of_devices_is_told_as_one(tmp_path: Path) -> None:
    after = training_file(tmp_path / "after.json")
    before = training_file(tmp_path / "before.json", device="NVIDIA A100-SXM4-80GB", units=108)
    found = analyze_traces([str(after)], against=[str(before)])
    assert found.difference is not None
    assert found.difference.notes[0].id == "difference.devices"
    assert str(found.difference.notes[0].figures["after"]).startswith("NVIDIA H100")


@pytest.mark.parametrize("device", ["h100-pcie", "NVIDIA H100 PCIe"])
def test_the_users_device_goes_before_the_traces(tmp_path: Path, device: str) -> None:
    found = analyze_traces([str(training_file(tmp_path / "a.json"))], device=device)
    assert found.traces[0].device_name == "NVIDIA H100 PCIe"
    assert found.traces[0].device_basis == "given with --device"
    assert ("ceilings.other_device", {"given": 114, "recorded": 132}) in [
        (one.id, one.figures) for one in found.warnings
    ]


def test_a_wrong_request_is_known_before_anything_is_read(tmp_path: Path) -> None:
    path = str(training_file(tmp_path / "a.json"))
    with pytest.raises(UsageError, match="did you mean"):
        analyze_traces([path], device="h100-sxn")
    with pytest.raises(UsageError, match=r"--counters .* 2\b"):
        analyze_traces([path, str(training_file(tmp_path / "b.json"))], counters="ncu.csv")
    with pytest.raises(UsageError, match="nowhere"):
        analyze_traces([str(tmp_path / "nowhere.json")])
    with pytest.raises(UsageError, match="engine"):
        analyze_traces([path], engine="rey")


def test_a_limit_is_kept_and_told(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"traceEvents": training_events(500)}))
    with pytest.raises(RunFormatError, match=r"long\.json.*--max-bytes"):
        analyze_traces([str(path)], limits=ReadLimits(json_bytes=path.stat().st_size // 4))
