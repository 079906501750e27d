"""`perfkit.analyze` tells what it is given by content; `perfkit.compare`, `plan` and `check` return results."""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import fsspec
import numpy as np
import pytest

import perfkit
from perfkit.analysis.model.comparison import Comparison
from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.flight import FlightAnalysis
from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.model.plan import Plan
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.pipeline.process_stacks import analyze_process
from perfkit.check.judge.result import Check
from perfkit.core.allocations import build_allocations
from perfkit.core.errors import RunFormatError, UsageError
from perfkit.store.memory_file import write_allocations
from perfkit_reports.subjects.registry import build_document, load_document
from tests.fixtures import sample_analysis, sample_checks, sample_memory_analysis, sample_plans, sample_trace_analysis
from tests.fixtures.caching_allocator import CachingAllocator
from tests.fixtures.flight_dumps import dump, entry
from tests.fixtures.gpu_traces import training_file
from tests.fixtures.spied_process import facts, threads
from tests.fixtures.suites import record, write_suite
from tests.fixtures.view_folder import live_suite


def snapshot() -> dict[str, Any]:
    allocator = CachingAllocator()
    allocator.free(allocator.malloc(100))
    allocator.malloc(100)
    return allocator.snapshot()


def write_dumps(folder: Path) -> Path:
    folder.mkdir()
    for rank, content in enumerate((dump(entry(0), entry(1, ended=False)), dump(entry(0)))):
        (folder / f"comm_lib_trace_rank_{rank}").write_bytes(pickle.dumps(content, 2))
    return folder


def write_traces(folder: Path) -> Path:
    for rank in range(2):
        training_file(folder / f"rank{rank}.json.gz", rank=rank)
    return folder


def write_recording(path: Path) -> Path:
    kept = build_allocations(
        device="cpu",
        time_ns=np.array([1, 2]),
        address=np.array([0, 0]),
        size=np.array([64, -64]),
        source="a test",
    )
    write_allocations(path, kept)
    return path


def write_content(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    runs = {"baseline": [record(0.1), record(0.11)], "amp": [record(0.05)], "ckpt": [record(0.2)]}
    return write_suite(tmp_path / "suite", runs)


def test_traces(tmp_path: Path) -> None:
    folder = write_traces(tmp_path / "ranks")
    ranks = [str(folder / f"rank{rank}.json.gz") for rank in range(2)]
    for source in (folder, str(folder / "rank*.json.gz"), ranks):
        found = perfkit.analyze(source, jobs=1)
        assert isinstance(found, TraceAnalysis)
        assert [trace.rank for trace in found.traces] == [0, 1]
    (alone,) = perfkit.analyze(ranks[0], device="h100-sxm", what_if="gemm=0.5", jobs=1).traces
    assert len(alone.what_ifs) == 1
    assert perfkit.analyze(ranks[0]).command == f"perfkit.analyze({ranks[0]!r})"
    packed = perfkit.analyze(f"file://{ranks[0]}")
    assert [trace.rank for trace in packed.traces] == [0]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(pickle.dumps(snapshot()), id="a pickled snapshot"),
        pytest.param(json.dumps(snapshot()).encode(), id="a snapshot as JSON"),
        pytest.param(b"[[-1, 1, 5, 0], [1, 4, -5, 0]]", id="points of a timeline"),
    ],
)
def test_recordings_of_memory(tmp_path: Path, content: bytes) -> None:
    file = write_content(tmp_path / "recorded.json", content)
    for source in (file, str(file), tmp_path):
        assert isinstance(perfkit.analyze(source), MemoryAnalysis)


def test_a_recording_of_perfkit_and_the_memory_of_a_trace(tmp_path: Path) -> None:
    assert isinstance(perfkit.analyze(write_recording(tmp_path / "memory.parquet")), MemoryAnalysis)
    event = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1}
    counts = {"Addr": 5, "Device Id": -1, "Device Type": 0}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 1, "tid": 1, "ts": 9, "dur": 5},
        {**event, "ts": 10, "args": {**counts, "Bytes": 4, "Total Allocated": 4}},
        {**event, "ts": 12, "args": {**counts, "Bytes": -4, "Total Allocated": 0}},
    ]
    trace = write_content(tmp_path / "trace.json", json.dumps({"traceEvents": events}).encode())
    assert isinstance(perfkit.analyze(trace), TraceAnalysis)
    memory = perfkit.analyze(trace, kind="memory")
    assert isinstance(memory, MemoryAnalysis)
    assert memory.accounts[0].peak_bytes == 4


def test_flight_recorders(tmp_path: Path) -> None:
    folder = write_dumps(tmp_path / "hang")
    for source in (folder, sorted(folder.iterdir()), str(folder / "comm_lib_*")):
        found = perfkit.analyze(source)
        assert isinstance(found, FlightAnalysis)
        assert found.mismatched_collectives[0].absent == (1,)
    assert [rank.rank for rank in perfkit.analyze(folder / "comm_lib_trace_rank_0").ranks] == [0]


def test_suites_and_what_is_in_them(suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = perfkit.analyze(suite)
    assert isinstance(whole, Analysis)
    assert [variant.name for variant in whole.variants] == ["baseline", "amp", "ckpt"]
    assert perfkit.analyze(suite / "suite.json") == whole
    run = perfkit.analyze(suite / "amp" / "0")
    assert [variant.name for variant in run.variants] == ["baseline", "amp"]
    assert {finding.variant for finding in run.findings} <= {"", "amp"}
    assert run.variants[1] == whole.variants[1]
    assert perfkit.analyze(suite / "amp") == perfkit.analyze(f"{suite}@amp") == run
    monkeypatch.chdir(suite / "baseline")
    assert [variant.name for variant in perfkit.analyze("1").variants] == ["baseline"]
    with pytest.raises(UsageError, match=r"'apm'.*'amp'"):
        perfkit.analyze(f"{suite}@apm")
    assert isinstance(perfkit.analyze(live_suite(tmp_path / "loop")), Analysis)


STORED = {
    "suite": sample_analysis.realistic,
    "trace": sample_trace_analysis.alone,
    "memory": sample_memory_analysis.alone,
    "check": sample_checks.every_verdict,
    "plan": sample_plans.realistic,
    "process": lambda: analyze_process(facts(), threads()),
}


@pytest.mark.parametrize("kind", STORED)
def test_a_saved_result_is_read_back(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfkit_reports.render.images.render_images", lambda *_: ())  # they take seconds
    saved = STORED[kind]()
    folder = saved.save(tmp_path / "report")
    assert folder == tmp_path / "report"
    assert (folder / "report.html").is_file()
    assert perfkit.analyze(folder) == saved
    assert perfkit.analyze(folder / "report.html") == saved
    assert load_document(folder).kind == build_document(saved).kind
    names = {path.stem for path in (folder / "tables").glob("*.parquet")}
    assert names == {table.name for table in build_document(saved).data}
    if kind == "memory":
        assert saved.save(folder) == folder, "an earlier report is replaced"


def test_a_comparison_and_flight_recorders_are_saved_and_read_back(suite: Path, tmp_path: Path) -> None:
    compared = perfkit.compare(f"{suite}@baseline", f"{suite}@amp")
    assert isinstance(compared, Comparison)
    assert [side.subject for side in compared.sides] == ["baseline", "amp"]
    assert perfkit.analyze(compared.save(tmp_path / "compared")) == compared
    hang = perfkit.analyze(write_dumps(tmp_path / "hang"))
    assert perfkit.analyze(hang.save(tmp_path / "flight")) == hang
    for result in (compared, hang):
        assert len(repr(result).splitlines()) <= 10


def test_a_report_is_saved_into_its_suite_and_over_nothing_else(suite: Path, tmp_path: Path) -> None:
    perfkit.analyze(suite).save(suite)
    assert isinstance(perfkit.analyze(suite), Analysis)
    for folder in (write_traces(tmp_path / "ranks"), suite):
        before = sorted(folder.rglob("*"))
        with pytest.raises(UsageError, match=str(folder)):
            sample_trace_analysis.alone().save(folder)
        assert sorted(folder.rglob("*")) == before


def unsafe() -> bytes:
    return pickle.dumps(Path("x"))


@pytest.mark.parametrize("name", ["notes.txt", "model.bin", "empty", "settings.json"])
def test_an_unknown_file_is_refused_with_what_it_is_and_what_is_accepted(tmp_path: Path, name: str) -> None:
    content = {"notes.txt": b"nothing", "model.bin": b"\0\1\2", "empty": b"", "settings.json": b'{"a": 1}'}[name]
    with pytest.raises(UsageError) as caught:
        perfkit.analyze(write_content(tmp_path / name, content))
    message = str(caught.value)
    assert name in message
    assert content == b"" or repr(content[:20]) in message
    assert ".json.zst" in message
    with pytest.raises(UsageError, match=name):
        perfkit.analyze(tmp_path)


def test_an_empty_folder_and_nothing_are_refused(tmp_path: Path) -> None:
    for source in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match=r"\.json\.zst"):
            perfkit.analyze(source)


def test_no_pickle_is_run(tmp_path: Path) -> None:
    file = write_content(tmp_path / "snapshot.pickle", unsafe())
    with pytest.raises(RunFormatError, match=r"snapshot\.pickle"):
        perfkit.analyze(file)


def test_a_trace_may_be_named_as_a_report_is(tmp_path: Path) -> None:
    training_file(tmp_path / "analysis.json")
    for source in (tmp_path, tmp_path / "analysis.json"):
        assert isinstance(perfkit.analyze(source), TraceAnalysis)


def test_wrong_options_are_refused_with_those_that_there_are(tmp_path: Path, suite: Path) -> None:
    trace = training_file(tmp_path / "trace.json")
    with pytest.raises(UsageError, match=r"'devise'.*'device'"):
        perfkit.analyze(trace, devise="h100-sxm")
    with pytest.raises(UsageError, match="device"):
        perfkit.analyze(suite, device="h100-sxm")
    with pytest.raises(UsageError, match=r"'traces'.*'trace'"):
        perfkit.analyze(trace, kind="traces")


def test_a_plan(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    told: list[str] = []
    from perfkit.workloads.gpt import SIZES

    with patch.dict(SIZES, nano=replace(SIZES["nano"], layers=1)):
        found = perfkit.plan("gpt:size=nano", "amp", batch_size=1, seq_len=8, world_size=1, progress=told.append)
    assert isinstance(found, Plan)
    assert [variant.name for variant in found.variants] == ["baseline", "amp"]
    assert found.command == "perfkit.plan('gpt:size=nano', 'amp')"
    assert len(told) == 2
    assert perfkit.analyze(found.save(tmp_path / "plan")) == found
    with pytest.raises(UsageError, match="network"):
        perfkit.plan("gpt:size=nano", "amp", network="50GB")
    with pytest.raises(UsageError, match="h100"):
        perfkit.plan("gpt:size=nano", "amp", gpu="h100x")


def test_a_check_of_stored_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = (
        write_suite(tmp_path / name, {"baseline": [record(step_s * share) for share in (1, 1.01, 0.99) * 2]})
        for name, step_s in (("old", 0.1), ("new", 0.2))
    )
    found = perfkit.check(new, baseline=old, thresholds={"step_time": "5%"})
    assert isinstance(found, Check)
    (judged,) = [judged for judged in found.variants[0].quantities if judged.quantity == "step_time"]
    assert judged.change == pytest.approx(1.0)
    assert perfkit.analyze(found.save(tmp_path / "checked")) == found
    for wrong, said in (
        ({"run": new}, "new: "),
        ({"run": new, "against_ref": "main"}, "^against_ref "),
        ({"baseline": tmp_path / "none" / "file.json"}, r"file\.json: "),
        ({"run": new, "baseline": old, "fail_on": "never"}, "^fail_on 'never'"),
        ({"run": new, "baseline": old, "thresholds": {"stepp_time": "3%"}}, "stepp_time"),
    ):
        with pytest.raises(UsageError, match=said):
            perfkit.check(**wrong)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("kind", STORED)
def test_a_result_is_shown_in_ten_lines(kind: str) -> None:
    result: DisplayMixin = STORED[kind]()
    lines = repr(result).splitlines()
    assert 4 <= len(lines) <= 10
    assert max(map(len, lines)) <= 170
    assert lines[0].startswith(f"{type(result).__name__}: ")
    assert ".to_html(path)" in lines[-1]
    assert (".findings" in lines[-1]) == hasattr(result, "findings")


def test_what_a_result_holds_is_shown_short_too() -> None:
    trace = sample_trace_analysis.alone().traces[0]
    assert len(repr(trace)) < 10_000
    assert f"kernels=<tuple of {len(trace.kernels)}>" in repr(trace)
    assert max(len(repr(variant)) for variant in sample_analysis.realistic().variants) < 15_000


def test_secrets_of_addresses_are_not_recorded() -> None:
    fsspec.filesystem("memory").pipe("/x.json?sig=q7Zr2", json.dumps(snapshot()).encode())
    found = perfkit.analyze("memory://x.json?sig=q7Zr2", kind="memory")
    assert found.command == "perfkit.analyze('memory://x.json?sig=REDACTED')"
    assert found.file == "memory://x.json?sig=REDACTED"
