"""Exports of Nsight Systems: of several processes and versions, of replayed graphs, and damaged ones."""

import sqlite3
from pathlib import Path

import pytest

from perfkit.core.errors import RunFormatError
from perfkit.trace.model import NONE, Category, Trace
from perfkit.trace.readers.nsys import export_report
from perfkit.trace.readers.trace_reader import read_trace
from perfkit.trace.readers.trace_sources import expand_sources

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
STRINGS = {1: "gemm<float>(int)", 2: "cudaLaunchKernel_v7000", 3: "cuLaunchKernelEx", 4: "main"}


def write(path: Path, **tables: list[dict[str, object]]) -> Path:
    """A database of tables, whose columns are the keys of their first rows."""
    with sqlite3.connect(path) as database:
        rows = [{"id": number, "value": text} for number, text in STRINGS.items()]
        for table, content in {"StringIds": rows, **tables}.items():
            names = list(content[0])
            database.execute(f"CREATE TABLE {table} ({', '.join(names)})")
            places = ", ".join("?" * len(names))
            database.executemany(f"INSERT INTO {table} VALUES ({places})", [list(row.values()) for row in content])
    database.close()
    return path


def make_kernel(start: int, end: int, process: int = 9, **more: object) -> dict[str, object]:
    return {
        "start": start, "end": end, "deviceId": 0, "streamId": 7, "correlationId": 5, "globalPid": process << 24,
        "demangledName": 1, **more,
    }  # fmt: skip


def make_call(start: int, process: int, name: int = 2) -> dict[str, object]:
    return {
        "start": start, "end": start + 2, "globalTid": process << 24 | 33, "correlationId": 5, "nameId": name,
    }  # fmt: skip


def find_named(trace: Trace, name: str) -> list[int]:
    return [index for index in range(len(trace)) if trace.names[trace.name[index]] == name]


def test_each_process_numbers_its_launches_by_itself(tmp_path: Path) -> None:
    trace = read_trace(
        write(
            tmp_path / "two.sqlite",
            CUPTI_ACTIVITY_KIND_KERNEL=[make_kernel(10, 20), make_kernel(30, 45, process=8)],
            CUPTI_ACTIVITY_KIND_RUNTIME=[make_call(1, 9), make_call(2, 8, name=3)],
        )
    )
    kernels, calls = trace.select_events(Category.KERNEL), trace.select_events(Category.LAUNCH)
    assert [trace.names[trace.name[index]] for index in calls] == ["cudaLaunchKernel", "cuLaunchKernelEx"]
    assert trace.correlation[kernels].tolist() == trace.correlation[calls].tolist()
    assert len(set(trace.correlation[kernels].tolist())) == 2
    assert [trace.threads[number] for number in trace.thread[calls]] == [("9", "33"), ("8", "33")]


def test_launch_geometry_and_devices(tmp_path: Path) -> None:
    launch = {"gridX": 4, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
    shared = {"staticSharedMemory": 1024, "dynamicSharedMemory": 512, "registersPerThread": 40}
    trace = read_trace(
        write(
            tmp_path / "one.sqlite",
            CUPTI_ACTIVITY_KIND_KERNEL=[make_kernel(10, 20, **launch, **shared)],
            TARGET_INFO_GPU=[{"id": 0, "name": "NVIDIA H100 80GB HBM3", "smCount": 132, "computeMajor": 9}],
            TARGET_INFO_SESSION_START_TIME=[{"utcEpochNs": 1_700_000_000_000_000_000}],
        )
    )
    assert trace.geometries[trace.geometry[0]].split(b"\0")[:4] == [b"[4,2,1]", b"[128,1,1]", b"1536", b"40"]
    assert trace.devices == {0: "NVIDIA H100 80GB HBM3"}
    assert (trace.properties["numSms"], trace.properties["computeMajor"]) == ("132", "9")
    assert trace.base_ns == 1_700_000_000_000_000_000


def test_graphs_with_and_without_their_nodes(tmp_path: Path) -> None:
    nodes = [make_kernel(10, 20, graphNodeId=3 << 32 | 1), make_kernel(20, 30, graphNodeId=3 << 32 | 2)]
    trace = read_trace(write(tmp_path / "nodes.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=nodes))
    assert trace.node.tolist() == [3 << 32 | 1, 3 << 32 | 2]
    whole = {**make_kernel(10, 90), "graphId": 3}
    del whole["demangledName"]
    trace = read_trace(
        write(
            tmp_path / "whole.sqlite",
            CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[whole],
            CUPTI_ACTIVITY_KIND_RUNTIME=[make_call(1, 9)],
        )
    )
    assert [note.id for note in trace.notes] == ["reading.graphs_without_nodes"]
    assert trace.are(Category.KERNEL).sum() == 1
    assert trace.end_ns.max() == 90


def test_ranges_have_a_text_or_the_number_of_one(tmp_path: Path) -> None:
    about = {"eventType": 59, "globalTid": 9 << 24 | 33}
    ranges = [
        {"start": 1, "end": 50, "text": "step", "textId": None, **about},
        {"start": 2, "end": 40, "text": None, "textId": 4, **about},
        {"start": 3, "end": None, "text": "open", "textId": None, **about},
        {"start": 4, "end": 5, "text": "a mark", "textId": None, **about, "eventType": 34},
    ]
    trace = read_trace(write(tmp_path / "ranges.sqlite", NVTX_EVENTS=ranges))
    assert {trace.names[number] for number in trace.name} == {"step", "main", "open"}
    assert trace.are(Category.RANGE).all()
    (step,) = find_named(trace, "step")
    assert (trace.start_ns[step], trace.end_ns[step]) == (1, 50)


def test_waits_name_their_stream(tmp_path: Path) -> None:
    wait = {"start": 5, "end": 9, "deviceId": 0, "correlationId": 4, "globalPid": 9 << 24}
    rows = [
        {**wait, "streamId": 7, "syncType": 3},
        {**wait, "streamId": 0xFFFFFFFF, "syncType": 4},
        {**wait, "streamId": 7, "syncType": 0},
    ]
    trace = read_trace(
        write(
            tmp_path / "waits.sqlite",
            CUPTI_ACTIVITY_KIND_KERNEL=[make_kernel(10, 20)],
            CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=rows,
        )
    )
    assert trace.syncs.kind.tolist() == [2, 3]
    assert trace.syncs.stream.tolist() == [7, NONE]


def test_other_databases_and_damage(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE runs (id)")
    database.close()
    with pytest.raises(RunFormatError, match="no export of Nsight Systems"):
        read_trace(tmp_path / "other.sqlite")
    with pytest.raises(RunFormatError, match="without CUDA or NVTX"):
        read_trace(write(tmp_path / "empty.sqlite"))
    whole = write(tmp_path / "whole.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=[make_kernel(10, 20)] * 300).read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RunFormatError, match="damaged"):
        read_trace(tmp_path / "cut.sqlite")
    assert expand_sources(tmp_path) == tuple(str(tmp_path / f"{name}.sqlite") for name in ("cut", "empty", "whole"))


def test_a_view_in_the_place_of_a_table_is_not_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "view.sqlite", NVTX_EVENTS=[{"start": 1, "end": 2, "eventType": 59, "text": "a", "globalTid": 1}]
    )
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE VIEW {KERNEL} AS SELECT 1 AS start, 2 AS end, 0 AS deviceId")
    database.close()
    assert not read_trace(path).are(Category.KERNEL).any()


def test_a_report_is_exported_by_the_tool_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write(tmp_path / "made.sqlite", CUPTI_ACTIVITY_KIND_KERNEL=[make_kernel(10, 20)])
    (tmp_path / "bin").mkdir()
    (tmp_path / "run.nsys-rep").write_bytes(b"report")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(RunFormatError, match=r"nsys export --type sqlite run\.nsys-rep"):
        read_trace(tmp_path / "run.nsys-rep")
    tool = tmp_path / "bin" / "nsys"
    tool.write_text(f'#!/bin/sh\n[ "$1 $2 $3" = "export --type sqlite" ] || exit 3\n/bin/cp {made} "$7"\n')
    tool.chmod(0o755)
    assert len(read_trace(tmp_path / "run.nsys-rep")) == 1
    tool.write_text("#!/bin/sh\necho no such version >&2\nexit 4\n")
    with pytest.raises(RunFormatError, match="ended with 4: no such version"):
        read_trace(tmp_path / "run.nsys-rep")
    assert export_report.is_report("a/b.nsys-rep")


def test_sampled_metrics_are_counters_of_their_gpu(tmp_path: Path) -> None:
    samples = [
        {"timestamp": time, "typeId": 0x1_0000_0002, "metricId": metric, "value": value}
        for time, metric, value in ((10, 4, 50), (20, 4, 70), (20, 9, 3))
    ]
    names = [{"typeId": 2, "metricId": 4, "metricName": "SMs Active [Throughput %]"}]
    trace = read_trace(
        write(
            tmp_path / "metrics.sqlite",
            CUPTI_ACTIVITY_KIND_KERNEL=[make_kernel(10, 20)],
            GPU_METRICS=samples,
            TARGET_INFO_GPU_METRICS=names,
        )
    )
    assert trace.counters.names == ("SMs Active [Throughput %]", "metric 9")
    assert trace.counters.device.tolist() == [2, 2, 2]
    assert trace.counters.value.tolist() == [50, 70, 3]
