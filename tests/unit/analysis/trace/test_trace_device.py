"""Which device a trace says it was recorded on."""

import json
from pathlib import Path

import pytest

from perfkit.analysis.trace.trace_device import identify_device
from perfkit.devices.lookup.trace_ceilings import TraceDevice
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.foreign_traces import Event, ascend_events, xla_events, xpu_events
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


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        (ascend_events(), "npu"),
        (xpu_events(), "xpu"),
        ([event for event in xpu_events() if event["cat"] != "xpu_runtime"], "xpu"),  # by the names of its kernels
        (xla_events(host="PjitFunction(f)"), "gpu"),
        (xla_events(host="PjitFunction(f)", launches="cuLaunchKernel"), "cuda"),
        (xla_events(host="PjitFunction(f)", launches="hipModuleLaunchKernel"), "rocm"),
        (xla_events(host="PjitFunction(f)", kernel="sm80_xmma_gemm_f16f16"), "cuda"),
        (xla_events(host="PjitFunction(f)", kernel="Cijk_Ailk_Bljk_HHS"), "rocm"),
    ],
)
def test_what_a_trace_without_names_tells_of_the_kind(tmp_path: Path, events: list[Event], kind: str) -> None:
    assert identify_device(read_trace(write(tmp_path / "a.json", traceEvents=events))) == TraceDevice(kind)


def test_without_work_on_a_device_it_is_a_cpu(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path / "a.json", traceEvents=[op("aten::mm", 0, 5, [(2, 2), (2, 2)])]))
    assert identify_device(trace) == TraceDevice("cpu")
