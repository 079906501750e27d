"""XLA's recordings: planes of GPUs, TPUs and the host, damaged ones, and those whose JSON lies beside them."""

import gzip
import json
from pathlib import Path

import pytest

from perfkit.core.errors import RunFormatError
from perfkit.trace.kernel_geometry import parse_geometry
from perfkit.trace.model import NONE, Category, Trace
from perfkit.trace.readers.trace_reader import read_trace
from perfkit.trace.readers.trace_sources import derive_trace_name, expand_sources
from tests.fixtures.protobuf import Value, encode

Fields = list[tuple[int, Value]]
STATS = {
    "correlation_id": 1, "kernel_details": 2, "memcpy_details": 3, "hlo_op": 4, "step_num": 5, "model_flops": 6,
    "bytes_accessed": 7, "step_name": 8, "cuda_graph_node_id": 9, "cuda_graph_id": 10, "flops": 11,
}  # fmt: skip
DETAILS = "regs:32 static_shared:16 dynamic_shared:64 grid:8,2,1 block:128,1,1 occ_pct:50"
COPY = "kind_src:device kind_dst:pinned size:4096 dest:0 async:1"


def stat(name: str, value: int | float | str) -> Fields:
    """An XStat, whose texts stand in it."""
    number = 2 if isinstance(value, float) else 3 if isinstance(value, int) else 5
    return [(1, STATS[name]), (number, value)]


def event(kind: int, offset_ns: int, duration_ns: float, *stats: Fields) -> tuple[int, Value]:
    return (4, [(1, kind), (2, offset_ns * 1000), (3, round(duration_ns * 1000)), *[(4, each) for each in stats]])


def line(number: int, name: str, *events: tuple[int, Value], began_ns: int = 1000) -> tuple[int, Value]:
    return (3, [(1, number), (2, name), (3, began_ns), *events])


def plane(number: int, name: str, *lines: tuple[int, Value], kinds: dict[int, Fields], stats: Fields = []) -> bytes:  # noqa: B006
    """An XPlane whose stats refer to names from 100 on by `stats`."""
    fields: Fields = [(1, number), (2, name), *lines]
    fields += [(4, [(1, key), (2, [(1, key), *about])]) for key, about in kinds.items()]
    fields += [(5, [(1, key), (2, [(1, key), (2, text)])]) for text, key in STATS.items()]
    return encode([(1, [*fields, *stats])])


def write(path: Path, *planes: bytes) -> Path:
    path.write_bytes(b"".join(planes))
    return path


def list_names(trace: Trace, category: Category) -> list[str]:
    return [trace.names[trace.name[index]] for index in trace.select_events(category).tolist()]


GPU = plane(
    0,
    "/device:GPU:0",
    line(
        7,
        "Stream #7(Kernel,MemcpyD2H)",
        event(1, 10, 5, stat("correlation_id", 41), stat("kernel_details", DETAILS), stat("hlo_op", "fusion.1")),
        event(2, 20, 3, stat("correlation_id", 42), stat("memcpy_details", COPY)),
        event(1, 30, 5, stat("cuda_graph_node_id", 3), stat("cuda_graph_id", 9)),
    ),
    line(9, "_counters_", (4, [(1, 3), (2, 15_000), (4, [(1, 100), (2, 62.5)])])),
    kinds={1: [(2, "gemm_kernel")], 2: [(2, "MemcpyD2H")], 3: [(2, "SM Active")]},
    stats=[
        (5, [(1, 100), (2, [(1, 100), (2, "sm__cycles_active.avg")])]),
        (5, [(1, 101), (2, [(1, 101), (2, "gpu_device_name")])]),
        (5, [(1, 102), (2, [(1, 102), (2, "core_count")])]),
        (6, [(1, 101), (5, "NVIDIA H100 80GB HBM3")]),
        (6, [(1, 102), (4, 132)]),
    ],
)  # fmt: skip
HOST = plane(
    1,
    "/host:CPU",
    line(
        77,
        "python",
        event(1, 5, 40, stat("step_num", 3)),
        event(2, 6, 2, stat("correlation_id", 41)),
        event(3, 8, 1),
    ),
    kinds={1: [(2, "train")], 2: [(2, "cudaLaunchKernel")], 3: [(2, "MemoryAllocation")]},
)


def test_planes_of_a_gpu_and_of_the_host(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "vm.xplane.pb", HOST, GPU))
    assert list_names(trace, Category.KERNEL) == ["gemm_kernel", "gemm_kernel"]
    assert list_names(trace, Category.COPY) == ["MemcpyD2H"]
    assert list_names(trace, Category.LAUNCH) == ["cudaLaunchKernel"]
    assert list_names(trace, Category.RANGE) == ["train"]
    assert "MemoryAllocation" not in [trace.names[name] for name in trace.name.tolist()]
    first, copy, node = trace.select_events(Category.KERNEL, Category.COPY).tolist()
    assert (trace.start_ns[first], trace.end_ns[first], trace.correlation[first]) == (1010, 1015, 41)
    assert (trace.device[first], trace.stream[first], trace.moved_bytes[copy]) == (0, 7, 4096)
    assert parse_geometry(trace.geometries[trace.geometry[first]])[:4] == (16, 128, 80, 32)
    assert trace.node.tolist()[node] == 9 << 32 | 3
    assert (trace.devices, trace.properties) == ({0: "NVIDIA H100 80GB HBM3"}, {"numSms": "132"})
    counters = trace.counters
    assert (counters.names, counters.time_ns.tolist(), counters.value.tolist()) == (("SM Active",), [1015], [62.5])
    assert counters.device.tolist() == [0]


def test_lines_of_a_tpu(tmp_path: Path) -> None:
    """Work are its ops without those around them; steps and modules are summaries; kinds state costs."""
    costs: Fields = [(5, stat("model_flops", 512)), (5, stat("bytes_accessed", 64)), (5, stat("hlo_op", "fusion"))]
    data = plane(
        2,
        "/device:TPU:0",
        line(1, "Steps", event(4, 0, 100, stat("step_name", "12"))),
        line(2, "XLA Modules", event(3, 0, 100)),
        line(3, "XLA Ops", event(1, 10, 50), event(2, 20, 4.6), event(2, 40, 5)),
        line(4, "Async XLA Ops", event(2, 20, 30)),
        kinds={
            1: [(2, "%while = ..."), (4, "while")], 2: [(2, "%fusion = f32[8] ..."), (4, "fusion"), *costs],
            3: [(2, "jit_step(12)")], 4: [(2, "0")],
        },
        stats=[
            (5, [(1, 101), (2, [(1, 101), (2, "device_type_string")])]),
            (5, [(1, 102), (2, [(1, 102), (2, "TPU v5 lite")])]),
            (6, [(1, 101), (7, 102)]),
        ],
    )  # fmt: skip
    trace = read_trace(write(tmp_path / "vm.xplane.pb", data))
    assert list_names(trace, Category.KERNEL) == ["fusion", "fusion"]
    assert list_names(trace, Category.GPU_RANGE) == ["12", "jit_step(12)", "while"]
    kernels = trace.select_events(Category.KERNEL)
    assert (trace.end_ns - trace.start_ns)[kernels].tolist() == [5, 5]
    assert [trace.statements[index][:2] for index in trace.stated[kernels].tolist()] == [(512, 64)] * 2
    assert (trace.devices, trace.runtime) == ({0: "TPU v5 lite"}, "tpu")


def test_times_count_from_the_beginning_that_the_file_states(tmp_path: Path) -> None:
    stats: Fields = [(5, [(1, 9), (2, [(2, "profile_start_time")])]), (6, [(1, 9), (3, 1_700_000_000_000_000_000)])]
    recorded = encode([(1, [(2, "Task Environment"), *stats])])
    assert read_trace(write(tmp_path / "a.pb", HOST, recorded)).base_ns == 1_700_000_000_000_000_000
    absolute = plane(
        1, "/host:CPU", line(7, "python", event(1, 5, 4), began_ns=1_700_000_000_000_000_001), kinds={1: [(2, "a")]}
    )
    trace = read_trace(write(tmp_path / "b.pb", absolute, recorded))
    assert (trace.base_ns, trace.start_ns.tolist()) == (0, [1_700_000_000_000_000_006])


def test_a_cut_file_has_its_whole_planes(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "cut.pb", HOST, GPU[:-20]))
    assert trace.cut
    assert list_names(trace, Category.LAUNCH) == ["cudaLaunchKernel"]
    assert not trace.has_device_events
    with pytest.raises(RunFormatError, match="first plane"):
        read_trace(write(tmp_path / "less.pb", HOST[:-20]))


def test_damaged_events_and_planes_are_left_out_and_counted(tmp_path: Path) -> None:
    broken = plane(3, "/host:CPU", line(8, "x", event(1, 1, 1), (4, b"\x08\x01\x13")), kinds={1: [(2, "good")]})
    trace = read_trace(write(tmp_path / "a.pb", broken))
    assert [trace.names[name] for name in trace.name.tolist()] == ["good"]
    assert [(note.id, note.figures) for note in trace.notes] == [("reading.broken_events", {"count": 1})]


def test_sums_over_events_have_no_time(tmp_path: Path) -> None:
    data = plane(
        3, "/host:CPU", line(8, "x", (4, [(1, 1), (5, 30), (3, 900_000)]), event(1, 2, 1)), kinds={1: [(2, "a")]}
    )
    assert len(read_trace(write(tmp_path / "a.pb", data))) == 1


def test_a_folder_is_read_once(tmp_path: Path) -> None:
    """JAX writes its JSON, of at most a million events, and a copy for Perfetto beside the recording."""
    folder = tmp_path / "plugins" / "profile" / "2026_01_01"
    folder.mkdir(parents=True)
    events = json.dumps({"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}).encode()
    for name in ("vm.trace.json.gz", "perfetto_trace.json.gz", "other.trace.json.gz"):
        (folder / name).write_bytes(gzip.compress(events))
    (folder / "vm.xplane.pb").write_bytes(HOST)
    assert [Path(source).name for source in expand_sources(tmp_path)] == ["other.trace.json.gz", "vm.xplane.pb"]
    assert expand_sources(folder / "vm.trace.json.gz") == (str(folder / "vm.trace.json.gz"),)
    assert derive_trace_name(str(folder / "vm.xplane.pb")) == "vm"


def test_gzipped(tmp_path: Path) -> None:
    (tmp_path / "vm.xplane.pb.gz").write_bytes(gzip.compress(HOST + GPU))
    trace = read_trace(tmp_path / "vm.xplane.pb.gz")
    assert len(trace.select_events(Category.KERNEL)) == 2
    assert trace.node.tolist().count(NONE) == len(trace) - 1


def test_json_of_xla_states_the_same_details(tmp_path: Path) -> None:
    stream = {"ph": "M", "pid": 1, "tid": 7, "name": "thread_name", "args": {"name": "Stream #7(Kernel)"}}
    device = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}}
    events = [
        {"ph": "X", "pid": 1, "tid": 7, "ts": 1, "dur": 2, "name": "gemm", "args": {"kernel_details": DETAILS}},
        {"ph": "X", "pid": 1, "tid": 7, "ts": 4, "dur": 2, "name": "MemcpyD2H", "args": {"memcpy_details": COPY}},
    ]
    (tmp_path / "vm.trace.json").write_text(json.dumps({"traceEvents": [device, stream, *events]}))
    written, recorded = read_trace(tmp_path / "vm.trace.json"), read_trace(write(tmp_path / "vm.xplane.pb", GPU))
    assert written.geometries == recorded.geometries
    assert max(written.moved_bytes.tolist()) == max(recorded.moved_bytes.tolist()) == 4096


def test_ops_of_tensorflow(tmp_path: Path) -> None:
    """They are shown by their type; in JSON the rest of the name stands beside it."""
    kinds: dict[int, Fields] = {1: [(2, "Gelu/mul:Mul"), (4, "Mul")], 2: [(2, "ExecutorState::Process")]}
    data = plane(1, "/host:CPU", line(7, "python", event(2, 0, 9), event(1, 2, 4), began_ns=0), kinds=kinds)
    host = {"ph": "M", "pid": 701, "name": "process_name", "args": {"name": "/host:CPU"}}
    events = [
        {"ph": "X", "pid": 701, "tid": 7, "ts": 0, "dur": 9, "name": "ExecutorState::Process"},
        {"ph": "X", "pid": 701, "tid": 7, "ts": 2, "dur": 4, "name": "Mul", "args": {"long_name": "Gelu/mul:Mul"}},
    ]
    (tmp_path / "vm.trace.json").write_text(json.dumps({"traceEvents": [host, *events]}))
    for trace in (read_trace(write(tmp_path / "vm.xplane.pb", data)), read_trace(tmp_path / "vm.trace.json")):
        assert list_names(trace, Category.OP) == ["Mul"]
        assert list_names(trace, Category.OTHER) == ["ExecutorState::Process"]
