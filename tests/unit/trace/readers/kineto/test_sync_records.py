"""Records of synchronisation, as Kineto writes them (`CudaSyncActivity::metadataJson`)."""

import json
from pathlib import Path
from typing import Any

from perfkit.trace.model import DEVICE_CATEGORIES, NONE, SYNC_KINDS
from perfkit.trace.readers.trace_reader import read_trace


def call(number: int, name: str, at: float, duration: float = 5.0) -> dict[str, Any]:
    args = {"cbid": 1, "correlation": number}
    return {
        "ph": "X", "cat": "cuda_runtime", "name": name, "pid": 7, "tid": 7, "ts": at, "dur": duration, "args": args,
    }  # fmt: skip


def kernel(number: int, stream: int, at: float, duration: float) -> dict[str, Any]:
    args = {"device": 0, "context": 1, "stream": stream, "correlation": number}
    return {
        "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": stream, "ts": at, "dur": duration, "args": args,
    }  # fmt: skip


def sync(kind: str, number: int, at: float, stream: int, source: int | None = None, record: int = -1) -> dict[str, Any]:
    args: dict[str, Any] = {"cuda_sync_kind": kind}
    if source is not None:
        args |= {"wait_on_stream": source, "wait_on_cuda_event_record_corr_id": record, "wait_on_cuda_event_id": 3}
    args |= {"stream": stream, "correlation": number, "device": 0, "context": 1}
    return {
        "ph": "X", "cat": "cuda_sync", "name": kind, "pid": 0, "tid": stream, "ts": at, "dur": 1.5, "args": args,
    }  # fmt: skip


def written(folder: Path, events: list[dict[str, Any]]) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_who_waited_for_what(tmp_path: Path) -> None:
    trace = read_trace(
        written(
            tmp_path,
            [
                kernel(1, 7, 10, 100),
                sync("Stream Wait Event", 5, 20.5, stream=20, source=7, record=4),
                sync("Event Sync", 6, 30, stream=-1, source=-1),  # recorded before the trace began
                sync("Stream Sync", 7, 40, stream=20),
                sync("Context Sync", 8, 50, stream=-1),
                sync("Unknown", 9, 60, stream=-1),
            ],
        )
    )
    syncs = trace.syncs
    assert [SYNC_KINDS[kind] for kind in syncs.kind] == [
        "Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync",
    ]  # fmt: skip
    assert syncs.time_ns.tolist() == [20_500, 30_000, 40_000, 50_000]
    assert syncs.call.tolist() == [5, 6, 7, 8]
    assert syncs.stream.tolist() == [20, NONE, 20, NONE]
    assert syncs.source.tolist() == [7, NONE, NONE, NONE]
    assert syncs.record.tolist() == [4, NONE, NONE, NONE]
    assert syncs.device.tolist() == [0, 0, 0, 0]


def test_records_of_waits_are_no_work_of_the_device(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, [kernel(1, 7, 10, 100), sync("Stream Sync", 7, 200, stream=7)]))
    assert len(trace.select_events(*DEVICE_CATEGORIES)) == 1


def test_a_trace_without_such_records(tmp_path: Path) -> None:
    assert len(read_trace(written(tmp_path, [kernel(1, 7, 10, 100)])).syncs) == 0
