"""Traces of writers other than today's Kineto."""

import json
from pathlib import Path
from typing import Any

import pytest

from perfkit.trace.model import NONE, Category, Trace
from perfkit.trace.readers.event_table.classify_events import CATEGORIES
from perfkit.trace.readers.trace_reader import read_trace


def read(tmp_path: Path, events: list[dict[str, Any]]) -> Trace:
    (tmp_path / "t.json").write_text(json.dumps(events))
    return read_trace(tmp_path / "t.json")


def complete(name: str, ts: float, pid: Any, tid: Any, cat: str | None = None, **args: Any) -> dict[str, Any]:
    event = {"ph": "X", "name": name, "ts": ts, "dur": 1, "pid": pid, "tid": tid, "args": args}
    return event if cat is None else {**event, "cat": cat}


def named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


@pytest.mark.parametrize(
    ("cat", "category"),
    [*CATEGORIES.items(), ("Kernel", Category.KERNEL), ("Operator", Category.OP), ("xpu_runtime", Category.LAUNCH),
     ("privateuse1_driver", Category.LAUNCH), ("overhead", Category.OTHER),
     ("Trace", Category.OTHER)],
)  # fmt: skip
def test_categories(tmp_path: Path, cat: str, category: Category) -> None:
    assert read(tmp_path, [complete("x", 1, 1, 1, cat)]).category.tolist() == [category]


@pytest.mark.parametrize("name", ["ProfilerStep#12", "ProfilerStep #3"])
@pytest.mark.parametrize("cat", ["cpu_op", "Operator", "user_annotation"])
def test_a_step_that_was_written_as_an_op_is_a_range(tmp_path: Path, name: str, cat: str) -> None:
    events = [complete(name, 1, 1, 1, cat), complete("aten::mm", 1.2, 1, 1, cat)]
    expected = Category.RANGE if cat == "user_annotation" else Category.OP
    assert read(tmp_path, events).category.tolist() == [Category.RANGE, expected]


@pytest.mark.parametrize("digits", [19, 5000])
def test_a_number_too_long_for_a_column_is_none_of_a_device_or_stream(tmp_path: Path, digits: int) -> None:
    number = "4" * digits
    trace = read(
        tmp_path,
        [
            named("process_name", 3, 0, f"/device:GPU:{number}"),
            named("process_name", 4, 0, f"GPU {number}"),
            named("process_name", 5, 0, "/device:GPU:1"),
            named("thread_name", 5, 14, f"Stream #{number}"),
            complete("gemm", 1, 3, 1),
            complete("gemm", 2, 4, 1),
            complete("gemm", 3, 5, 14),
        ],
    )
    assert trace.device.tolist()[:2] == [NONE, NONE]
    assert trace.stream.tolist() == [NONE, NONE, 14]  # the number of its thread


def test_xla_on_gpus(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        [
            named("process_name", 3, 0, "/device:GPU:1"),
            named("thread_name", 3, 14, "Stream #14(Compute)"),
            named("thread_name", 3, 20, "XLA Ops"),
            named("thread_name", 3, 21, "XLA Modules"),
            named("process_name", 701, 0, "/host:CPU"),
            complete("gemm_fusion", 1, 3, 14, hlo_op="dot.1", hlo_module="jit_f", correlation_id="77"),
            complete("MemcpyD2D", 2, 3, 14),
            complete("dot.1", 3, 3, 20, hlo_op="dot.1"),
            complete("jit_f", 4, 3, 21),
            complete("cuLaunchKernel", 5, 701, 8, correlation_id=77),
            complete("$train.py:12 step", 6, 701, 8),
            complete("PjitFunction(f)", 7, 701, 8),
            {},
        ],
    )
    assert trace.category.tolist() == [
        Category.KERNEL, Category.COPY, Category.GPU_RANGE, Category.GPU_RANGE, Category.LAUNCH, Category.PYTHON,
        Category.OTHER,
    ]  # fmt: skip
    assert trace.device.tolist() == [1, 1, 1, 1, NONE, NONE, NONE]
    assert trace.stream.tolist()[:2] == [14, 14]
    assert trace.correlation.tolist() == [77, NONE, NONE, NONE, 77, NONE, NONE]
    assert trace.thread_names[trace.thread[0]] == "Stream #14(Compute)"
    assert trace.notes == ()


def test_xla_on_tpus_has_no_streams(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        [
            named("process_name", 3, 0, "/device:TPU:0"),
            named("thread_name", 3, 1, "Steps"),
            named("thread_name", 3, 3, "XLA Ops"),
            complete("fusion.2", 1, 3, 3, hlo_op="fusion.2"),
            complete("12", 2, 3, 1),
        ],
    )
    assert trace.category.tolist() == [Category.KERNEL, Category.GPU_RANGE]


def test_xla_on_the_host(tmp_path: Path) -> None:
    trace = read(tmp_path, [complete("dot.3", 1, 701, 4, hlo_op="dot.3")])
    assert trace.category.tolist() == [Category.OP]


def test_events_without_a_category(tmp_path: Path) -> None:
    labels = {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}}
    events = [labels, complete("gemm", 1, 0, 7), complete("Memset (Device)", 2, 0, 7), complete("aten::mm", 3, 9, 9)]
    trace = read(tmp_path, events)
    assert trace.category.tolist() == [Category.KERNEL, Category.FILL, Category.OP]
    assert (trace.device.tolist(), trace.stream.tolist()) == ([0, 0, NONE], [7, 7, NONE])


def test_old_files_correlate_by_external_id_and_place_by_process(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        [
            complete("cudaLaunchKernel", 1, 99, 99, "Runtime", **{"external id": 5}),
            complete("gemm", 2, 0, 7, "Kernel", **{"external id": "5"}),
        ],
    )
    assert trace.correlation.tolist() == [5, 5]
    assert (trace.device[1], trace.stream[1]) == (0, 7)


def test_rocm_copies_get_their_size_from_the_call(tmp_path: Path) -> None:
    trace = read(
        tmp_path,
        [
            complete("hipMemcpyAsync", 1, 9, 9, "cuda_runtime", correlation=3, size="2560", stream="0x0"),
            complete("CopyHostToDevice", 2, 0, 0, "gpu_memcpy", correlation=3, device=0, stream=0),
        ],
    )
    assert trace.moved_bytes.tolist() == [NONE, 2560]


def test_begin_and_end_events(tmp_path: Path) -> None:
    def half(ph: str, ts: float, name: str = "", tid: int = 1) -> dict[str, Any]:
        return {"ph": ph, "ts": ts, "name": name, "pid": 1, "tid": tid}

    events = [half("B", 1, "outer"), half("B", 2, "inner"), half("B", 2.5, "other", 2), half("E", 4), half("E", 6),
              half("E", 7, tid=2), half("E", 8), half("B", 9, "open")]  # fmt: skip
    trace = read(tmp_path, events)
    rows = zip(trace.name.tolist(), trace.start_ns.tolist(), trace.end_ns.tolist(), strict=True)
    assert [(trace.names[name], start, end) for name, start, end in rows] == [
        ("outer", 1000, 6000), ("inner", 2000, 4000), ("other", 2500, 7000),
    ]  # fmt: skip
    (note,) = trace.notes
    assert (note.id, note.figures) == ("reading.unpaired", {"count": 2})


def test_times_since_1970_keep_their_nanoseconds(tmp_path: Path) -> None:
    text = '[{"ph":"X","name":"a","ts":1682725898236567.123,"dur":1.5},{"ph":"X","name":"b","ts":1682725898236567.124}]'
    (tmp_path / "t.json").write_text(text)
    trace = read_trace(tmp_path / "t.json")
    assert trace.start_ns.tolist() == [1682725898236567123, 1682725898236567124]
    assert trace.end_ns[0] == 1682725898236568623
    (tmp_path / "t.json").write_text('[{"ph":"X","name":"a","ts":1682725898236567123,"dur":1500}]')
    trace = read_trace(tmp_path / "t.json")
    assert (trace.start_ns[0], trace.end_ns[0]) == (1682725898236567123, 1682725898236568623)
    assert [note.id for note in trace.notes] == ["reading.nanoseconds"]
