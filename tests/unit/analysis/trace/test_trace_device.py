"""Which device a trace says it was recorded on."""

import json
from pathlib import Path

from perfkit.analysis.trace.trace_device import identify_device
from perfkit.devices.lookup.trace_ceilings import TraceDevice
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.gpu_traces import training_events, training_file
from tests.fixtures.traces import op


def write(path: Path, **members: object) -> Path:
    path.write_text(json.dumps(members))
    return path


def test_the_name_and_size_of_the_device_that_worked(tmp_path: Path) -> None:
    trace = read_trace(training_file(tmp_path / "a.json"))
    assert identify_device(trace) == TraceDevice("cuda", "NVIDIA H100 80GB HBM3", 132, 85 * 10**9)


def test_of_several_devices_the_one_that_worked(tmp_path: Path) -> None:
    events = training_events()
    for event in events:
        if "device" in event["args"]:
            event["args"]["device"] = 1
    devices = [
        {"id": 0, "name": "NVIDIA T4", "numSms": 40, "totalGlobalMem": 16},
        {"id": 1, "name": "NVIDIA L4", "numSms": 58, "totalGlobalMem": 24},
    ]
    trace = read_trace(write(tmp_path / "a.json", traceEvents=events, deviceProperties=devices))
    assert identify_device(trace) == TraceDevice("cuda", "NVIDIA L4", 58, 24)


def test_what_is_not_told_is_not_known(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "a.json", traceEvents=training_events()))
    assert identify_device(trace) == TraceDevice("cuda", "", None, None)


def test_another_runtime_tells_the_device(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "mtia_runtime", "name": "runFunction", "pid": 7, "tid": 7, "ts": 0, "dur": 5, "args": {}},
        {"ph": "X", "cat": "kernel", "name": "fba_mm", "pid": 0, "tid": 3, "ts": 9, "dur": 5, "args": {"device": 0}},
    ]
    assert identify_device(read_trace(write(tmp_path / "a.json", traceEvents=events))).kind == "mtia"


def test_without_work_on_a_device_it_is_a_cpu(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "a.json", traceEvents=[op("aten::mm", 0, 5, [(2, 2), (2, 2)])]))
    assert identify_device(trace) == TraceDevice("cpu")
