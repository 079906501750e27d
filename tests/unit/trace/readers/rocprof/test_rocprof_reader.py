"""Recordings of ROCm's profilers: rocprofv3's JSON and Perfetto tracks, and the JSON of those before it."""

import json
from pathlib import Path
from typing import Any

import pytest

from perfkit.core.errors import RunFormatError
from perfkit.trace.kernel_geometry import parse_geometry
from perfkit.trace.model import NONE, Category, Trace
from perfkit.trace.readers.rocprof.cut_json import end_cut_json
from perfkit.trace.readers.trace_reader import read_trace
from perfkit.trace.readers.trace_sources import expand_sources
from tests.fixtures.protobuf import Value, encode_trace

Record = dict[str, Any]
NAMES = [
    {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel", "hipMemcpyAsync"]},
    {"kind": "HSA_CORE_API", "operations": ["hsa_signal_wait_scacquire"]},
    {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
    {"kind": "MARKER_CORE_RANGE_API", "operations": ["roctxMarkA", "roctxThreadRangeA"]},
]
AGENTS = [
    {"id": {"handle": 50}, "type": 1, "name": "AMD EPYC 9654", "logical_node_type_id": 0},
    {"id": {"handle": 51}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "cu_count": 304,
     "logical_node_type_id": 0},
    {"id": {"handle": 52}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "cu_count": 304,
     "logical_node_type_id": 1},
]  # fmt: skip


def record(start: int, end: int, call: int, **more: Any) -> Record:
    return {"size": 64, "start_timestamp": start, "end_timestamp": end, "thread_id": 9,
            "correlation_id": {"internal": call, "external": {"value": 0}}, **more}  # fmt: skip


def dispatch(start: int, end: int, call: int, **more: Any) -> Record:
    info = {
        "agent_id": {"handle": 52}, "queue_id": {"handle": 3}, "kernel_id": 7, "group_segment_size": 512,
        "workgroup_size": {"x": 64, "y": 2, "z": 1}, "grid_size": {"x": 200, "y": 4, "z": 1},
    }  # fmt: skip
    return record(start, end, call, dispatch_info=info, **more)


def make_process(pid: int = 4, **records: list[Record]) -> Record:
    markers = [{"key": 30, "value": "aten::mm, seq = 5, sizes = [[4, 8], [8, 2]]"}, {"key": 31, "value": "step 1"}]
    return {
        "metadata": {"pid": pid, "init_time": 1, "fini_time": 9},
        "agents": AGENTS,
        "strings": {"callback_records": [], "buffer_records": NAMES, "marker_api": markers},
        "kernel_symbols": [
            {
                "kernel_id": 7,
                "kernel_name": "_Z4gemmPf.kd",
                "formatted_kernel_name": "gemm(float*)",
                "arch_vgpr_count": 32,
            }
        ],
        "buffer_records": records,
    }


PROCESS = make_process(
    kernel_dispatch=[dispatch(100, 150, 21, stream_id={"handle": 2}), dispatch(160, 180, 22)],
    memory_copy=[
        record(10, 20, 23, kind=2, operation=1, dst_agent_id={"handle": 51}, src_agent_id={"handle": 50}, bytes=4096)
    ],
    hip_api=[record(90, 95, 21, kind=0, operation=0)],
    hsa_api=[record(91, 92, 26, kind=1, operation=0)],
    marker_api=[
        record(80, 99, 30, kind=3, operation=1), record(70, 200, 31, kind=3, operation=1),
        record(75, 75, 31, kind=3, operation=0),
    ],
)  # fmt: skip


def write(path: Path, *processes: Record) -> Path:
    path.write_text(json.dumps({"rocprofiler-sdk-tool": processes}, indent=4))
    return path


def list_names(trace: Trace, category: Category) -> list[str]:
    return [trace.names[trace.name[index]] for index in trace.select_events(category).tolist()]


def test_kernels_copies_calls_and_ranges(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "1_results.json", PROCESS))
    assert list_names(trace, Category.KERNEL) == ["gemm(float*)"] * 2
    assert list_names(trace, Category.COPY) == ["Memcpy HtoD"]
    assert list_names(trace, Category.LAUNCH) == ["hipLaunchKernel"]
    assert list_names(trace, Category.OTHER) == ["hsa_signal_wait_scacquire"]
    assert list_names(trace, Category.RANGE) == ["step 1"]
    assert list_names(trace, Category.OP) == ["aten::mm"]
    copy, first, second = trace.select_events(Category.COPY, Category.KERNEL).tolist()
    assert trace.correlation[[first, second]].tolist() == [21, 22]
    assert trace.device[[copy, first, second]].tolist() == [0, 1, 1]
    assert trace.stream[[copy, first, second]].tolist() == [0, 2, 3]  # without streams their queues
    assert trace.moved_bytes[copy] == 4096
    assert parse_geometry(trace.geometries[trace.geometry[first]])[:4] == (8, 128, 512, 32)
    assert trace.devices == {0: "AMD Instinct MI300X", 1: "AMD Instinct MI300X"}
    assert trace.properties == {"numSms": "304"}
    op = int(trace.select_events(Category.OP)[0])
    assert (trace.sequence[op], trace.signatures[trace.signature[op]].dims) == (5, b"[[4, 8], [8, 2]]")
    assert expand_sources(tmp_path) == (str(tmp_path / "1_results.json"),)


def test_calls_of_two_processes_are_not_mixed(tmp_path: Path) -> None:
    one = make_process(3, hip_api=[record(1, 2, 21, kind=0, operation=0)], kernel_dispatch=[dispatch(3, 4, 21)])
    two = make_process(4, hip_api=[record(5, 6, 21, kind=0, operation=0)], kernel_dispatch=[dispatch(7, 8, 21)])
    trace = read_trace(write(tmp_path / "r.json", one, two))
    calls, kernels = trace.select_events(Category.LAUNCH), trace.select_events(Category.KERNEL)
    assert trace.correlation[calls].tolist() == trace.correlation[kernels].tolist()
    assert len({*trace.correlation[calls].tolist()}) == 2


def test_a_cut_file_has_the_records_before_the_cut(tmp_path: Path) -> None:
    whole = write(tmp_path / "r.json", PROCESS).read_bytes()
    (tmp_path / "cut.json").write_bytes(whole[: whole.index(b'"hip_api"') - 300])
    trace = read_trace(tmp_path / "cut.json")
    assert trace.cut
    assert "reading.truncated" in [note.id for note in trace.notes]
    assert list_names(trace, Category.KERNEL)
    assert not list_names(trace, Category.LAUNCH)


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        (b'[{"a": [{"b": "}]"}, {"c": 1', b'[{"a": [{"b": "}]"}]}]'),
        (b'{"a": 1}', b'{"a": 1}'),
        (b'{"a": [1, 2', b""),
        (b'[{"a": 1}]]', b'[{"a": 1}]]'),
        (b'[{"a": 1}, {"b": "\\', b'[{"a": 1}]'),
    ],
)
def test_cut_json_is_ended_after_its_last_record(text: bytes, ended: bytes) -> None:
    assert end_cut_json(text)[0] == ended


@pytest.mark.parametrize("records", [{"kernel_dispatch": [{"start_timestamp": "now"}]}, {"hip_api": 3}])
def test_another_layout_is_refused(tmp_path: Path, records: Any) -> None:
    with pytest.raises(RunFormatError, match="rocprofv3"):
        read_trace(write(tmp_path / "r.json", make_process(**records)))


def test_tracks_of_rocprofv3_in_perfettos_format(tmp_path: Path) -> None:
    """Streams of agents are tracks; a copy to the CPU is work of the only GPU."""
    cats = {"hip_api": 1, "kernel_dispatch": 2, "memory_copy": 3, "marker_api": 4, "hsa_api": 5}
    tracks = {
        20: "COMPUTE AGENT [2] STREAM [1] (GPU)", 21: "COPY to AGENT [0] STREAM [4] (CPU)", 22: "THREAD 1 (77)",
    }  # fmt: skip
    packets: list[list[tuple[int, Value]]] = [
        [(60, [(1, 5), (3, [(1, 11)])])],
        *([(60, [(1, uuid), (5, 5), (2, name)])] for uuid, name in tracks.items()),
        [(10, 1), (13, 1), (12, [(1, [(1, number), (2, name)]) for name, number in cats.items()])],
    ]
    events = [
        (22, "hip_api", "hipLaunchKernel", 10, 12, {"corr_id": 3}),
        (20, "kernel_dispatch", "gemm", 20, 30, {"corr_id": 3}),
        (21, "memory_copy", "MEMORY_COPY_DEVICE_TO_HOST", 40, 50, {"corr_id": 4, "copy_bytes": 256}),
        (22, "marker_api", "step 1", 5, 60, {}), (22, "hsa_api", "hsa_queue_create", 13, 14, {}),
    ]  # fmt: skip
    for uuid, cat, name, start, end, about in events:
        notes: list[tuple[int, Value]] = [(4, [(10, key), (3, value)]) for key, value in about.items()]
        packets.append([(8, start), (10, 1), (11, [(9, 1), (11, uuid), (3, cats[cat]), (23, name), *notes])])
        packets.append([(8, end), (10, 1), (11, [(9, 2), (11, uuid)])])
    (tmp_path / "r.pftrace").write_bytes(encode_trace(packets))
    trace = read_trace(tmp_path / "r.pftrace")
    assert list_names(trace, Category.KERNEL) == ["gemm"]
    assert list_names(trace, Category.LAUNCH) == ["hipLaunchKernel"]
    assert list_names(trace, Category.RANGE) == ["step 1"]
    assert list_names(trace, Category.OTHER) == ["hsa_queue_create"]
    kernel, copy = trace.select_events(Category.KERNEL, Category.COPY).tolist()
    assert trace.device[[kernel, copy]].tolist() == [2, 2]
    assert trace.stream[[kernel, copy]].tolist() == [1, 4]
    assert trace.correlation[kernel] == trace.correlation[int(trace.select_events(Category.LAUNCH)[0])] == 3
    assert trace.moved_bytes[copy] == 256


def test_json_of_rocprof_before_version_3(tmp_path: Path) -> None:
    """Processes stand for APIs and GPUs, numbers are text, and arrows end with steps."""
    labels = {2: "CPU HIP API", 1: "COPY", 6: "GPU0"}
    events = [
        {},
        *({"args": {"name": name}, "ph": "M", "pid": pid, "name": "process_name"} for pid, name in labels.items()),
        {
            "ph": "X",
            "name": "hipLaunchKernel",
            "pid": "2",
            "tid": "5",
            "ts": "10",
            "dur": "2",
            "args": {"BeginNs": "1"},
        },
        {"ts": 10, "ph": "s", "cat": "DataFlow", "id": 0, "pid": 2, "tid": 5, "name": "dep"},
        {"ts": 20, "ph": "t", "cat": "DataFlow", "id": 0, "pid": 6, "tid": 1, "name": "dep"},
        {"ph": "X", "name": "gemm", "pid": "6", "tid": "1", "ts": "20", "dur": "7", "args": {"dev-id": "0"}},
        {"ph": "X", "name": "CopyDeviceToHost", "pid": "1", "tid": "1", "ts": "30", "dur": "4", "args": {}},
    ]
    (tmp_path / "results.json").write_text(json.dumps({"traceEvents": events}))
    trace = read_trace(tmp_path / "results.json")
    assert list_names(trace, Category.KERNEL) == ["gemm"]
    assert list_names(trace, Category.COPY) == ["CopyDeviceToHost"]
    assert list_names(trace, Category.LAUNCH) == ["hipLaunchKernel"]
    assert trace.device[trace.select_events(Category.KERNEL, Category.COPY)].tolist() == [0, 0]
    assert (trace.flows.kind.tolist(), trace.flows.start.tolist()) == ([0, 0], [True, False])
    assert trace.correlation.tolist().count(NONE) == len(trace)
