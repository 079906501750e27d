"""Memory events of traces, with what the ops, ranges and stacks around them tell."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.allocations import NONE, Allocations
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.memory.trace_allocations import build_ops_allocations
from perfkit.trace.model import Trace
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.trace_events import event, inputs, range_, sequence
from tests.fixtures.traces import Event, mark, memory, op, out_of_memory, write_trace


def traced(folder: Path, *events: Event) -> Trace:
    return read_trace(write_trace(folder / "trace.json.gz", events))


def found(folder: Path, *events: Event) -> Allocations:
    (only,) = build_ops_allocations(read_ops(traced(folder, *events)))
    return only


def texts(of: Allocations, column: str) -> list[str]:
    return [of.names[number] for number in getattr(of, column).tolist()]


def phases(of: Allocations) -> list[str]:
    return ["" if phase == NONE else PHASES[phase] for phase in of.phase.tolist()]


STEP = [
    mark("perfkit::step#3", 0, 100),
    mark("perfkit::forward", 10, 30),
    mark("perfkit::backward", 50, 30),
    op("aten::linear", 12, 10, [[8, 4], [4, 4]]),
    op("aten::addmm", 13, 8, [[4], [8, 4], [4, 4]]),
    op("aten::empty", 14, 1),
]


def test_an_event_has_its_step_phase_op_and_what_is_in_it(tmp_path: Path) -> None:
    one = found(tmp_path, *STEP, memory(13.5, 7, 128), memory(14.5, 8, 64), memory(60, 7, -128), memory(120, 8, -64))
    assert one.device == "cpu"
    assert one.time_ns.tolist() == [13_500, 14_500, 60_000, 120_000]
    assert (one.address.tolist(), one.size.tolist()) == ([7, 8, 7, 8], [128, 64, -128, -64])
    assert phases(one) == ["forward", "forward", "backward", ""]
    assert (one.step.tolist(), one.visit.tolist()) == ([3, 3, 3, NONE], [1, 1, 2, 2])
    assert texts(one, "op") == ["aten::addmm", "aten::addmm", "", ""]
    assert (texts(one, "shape"), texts(one, "dtype")) == (["[8, 4]", "", "", ""], ["fp32", "", "", ""])
    assert [(band.kind, band.name, band.start_ns, band.end_ns) for band in one.bands] == [
        ("step", "3", 0, 100_000),
        ("phase", "forward", 10_000, 40_000),
        ("phase", "backward", 50_000, 80_000),
    ]


def test_a_trace_without_memory_has_none(tmp_path: Path) -> None:
    assert build_ops_allocations(read_ops(traced(tmp_path, *STEP))) == ()


def test_events_without_ops_steps_or_phases_are_kept(tmp_path: Path) -> None:
    one = found(tmp_path, memory(1, 7, 100), memory(2, 7, -100))
    assert (one.size.tolist(), one.step.tolist(), phases(one)) == ([100, -100], [NONE, NONE], ["", ""])
    assert texts(one, "op") == texts(one, "module") == texts(one, "line") == ["", ""]
    assert one.bands == ()


def test_devices_are_told_apart_and_the_cpu_is_last(tmp_path: Path) -> None:
    events = [
        memory(1, 1, 10),
        memory(2, 2, 20, 1, device=1),
        memory(3, 3, 30, 1),
        memory(4, 4, 40, 12, device=2),
        memory(4.5, 4, 45, 6, device=3),
        memory(5, 5, 50, 20),
        memory(6, 6, 60, 99),
        memory(7, 7, 70, device=-1),
    ]
    every = build_ops_allocations(read_ops(traced(tmp_path, *events)))
    assert [(one.device, one.size.tolist()) for one in every] == [
        ("cuda:0", [30]),
        ("cuda:1", [20]),
        ("cuda:3", [45]),
        ("xpu:2", [40]),
        ("privateuseone:0", [50]),
        ("device type 99:0", [60]),
        ("cpu", [10, 70]),
    ]


def test_a_gpu_counts_what_it_had_handed_out_before_and_what_it_holds_reserved(tmp_path: Path) -> None:
    one = found(
        tmp_path,
        memory(1, 7, 512, 1, total=5632, reserved=8192),
        memory(2, 8, 512, 1, total=6144, reserved=8192),
        memory(3, 9, 4096, 1, total=10240, reserved=12288),
        memory(4, 9, -4096, 1, total=6144, reserved=12288),
        memory(5, 8, -512, 1, total=5632, reserved=8192),
    )
    assert one.unexplained_bytes == 5120
    assert one.reserved.at_event.tolist() == [0, 2, 4]
    assert one.reserved.size.tolist() == [8192, 4096, -4096]
    made = build_memory_account(one)
    assert (made.peak_bytes, [(part.category, part.bytes) for part in made.outside_allocator]) == (
        10240,
        [("reserved but free", 2048)],
    )
    assert (made.fragmentation.reserved_bytes, made.fragmentation.largest_free_bytes) == (12288, None)


def test_a_cpus_count_tells_nothing_of_before(tmp_path: Path) -> None:
    one = found(tmp_path, memory(1, 7, 100, total=900))
    assert one.unexplained_bytes == 0
    assert "recording" in one.source


def test_negative_totals_are_no_bytes_from_before(tmp_path: Path) -> None:
    assert found(tmp_path, memory(1, 7, 512, 1, total=-512)).unexplained_bytes == 0


def test_frees_of_what_was_never_allocated_mean_blocks_from_before(tmp_path: Path) -> None:
    made = build_memory_account(found(tmp_path, memory(1, 7, 100), memory(2, 8, -60), memory(3, 7, -100)))
    assert made.peak_bytes == 160


def test_old_versions_wrote_addresses_as_text_or_not_at_all(tmp_path: Path) -> None:
    with_text = memory(1, 0, 100)
    with_text["args"]["Addr"] = "0x7f00"
    without = memory(2, 0, 40)
    for name in ("Addr", "Total Allocated", "Total Reserved"):
        del without["args"][name]
    one = found(tmp_path, with_text, without)
    assert one.address.tolist() == [0x7F00, NONE]
    made = build_memory_account(one)
    assert made.peak_bytes == 140


def test_events_of_no_size_are_no_events(tmp_path: Path) -> None:
    assert found(tmp_path, memory(1, 7, 0), memory(2, 8, 5)).size.tolist() == [5]
    assert build_ops_allocations(read_ops(traced(tmp_path, memory(1, 7, 0)))) == ()


def test_sizes_that_no_memory_holds_are_no_events(tmp_path: Path) -> None:
    one = found(tmp_path, memory(1, 7, 2**62, 1, total=2**62), memory(2, 8, 512, 1, total=2**62, reserved=2**62))
    assert (one.size.tolist(), one.unexplained_bytes, len(one.reserved)) == ([512], 0, 0)


def test_a_request_that_failed_is_no_allocation_but_told_with_its_place(tmp_path: Path) -> None:
    events = [memory(13.2, 7, 512, 1, total=512), out_of_memory(13.5, 2**30, total=512, reserved=2048)]
    one = found(tmp_path, *STEP, *events)
    assert one.size.tolist() == [512]
    assert (one.failed.bytes, one.failed.phase, one.failed.step, one.failed.op) == (2**30, "forward", 3, "aten::addmm")
    assert re.search(r"\b512 bytes\b.*\b2,048 bytes\b", one.failed.message)


def test_a_failure_alone_is_told_too(tmp_path: Path) -> None:
    one = found(tmp_path, out_of_memory(1, 4096))
    assert (len(one), one.device) == (0, "cuda:0")
    assert one.failed.bytes == 4096


def test_phases_of_a_foreign_trace_are_those_of_its_ops(tmp_path: Path) -> None:
    nodes = "autograd::engine::evaluate_function: AddmmBackward0"
    events = [
        range_("ProfilerStep#5", 0, 100),
        event("aten::addmm", 10, 5, **sequence(1), **inputs([4], [8, 4], [4, 4])),
        event("aten::relu", 20, 5, **sequence(2), **inputs([8, 4])),
        event(nodes, 40, 10, tid=2, **sequence(1, backward=True)),
        event("AddmmBackward0", 41, 8, tid=2, **sequence(1, backward=True)),
        event("aten::mm", 42, 3, tid=2, **inputs([8, 4], [4, 4])),
        range_("Optimizer.step#SGD.step", 60, 20),
        event("aten::_foreach_add_", 65, 5),
        range_("Optimizer.zero_grad#SGD.zero_grad", 85, 5),
        memory(11, 1, 128),
        memory(17, 2, 4),  # between two ops of forward
        memory(43, 3, 128, thread=2),
        memory(47, 1, -128, thread=2),
        memory(49.5, 2, -4, thread=2),
        memory(66, 4, 64),
        memory(75, 4, -64),
        memory(87, 3, -128),
    ]
    one = found(tmp_path, *events)
    assert phases(one) == ["forward"] * 2 + ["backward"] * 3 + ["optimizer"] * 3
    assert set(one.step.tolist()) == {5}
    assert one.visit.tolist() == [1, 1, 2, 2, 2, 3, 3, 3]
    assert texts(one, "op") == [
        "aten::addmm",
        "",
        "aten::mm",
        "AddmmBackward0",
        "AddmmBackward0",
        "aten::_foreach_add_",
        "Optimizer.step#SGD.step",
        "Optimizer.zero_grad#SGD.zero_grad",
    ]


def test_two_forward_passes_of_a_step_are_two_visits(tmp_path: Path) -> None:
    events: list[Event] = [range_("ProfilerStep#0", 0, 100)]
    for start, number in ((10, 1), (50, 2)):
        events += [
            event("aten::relu", start, 5, **sequence(number)),
            event("ReluBackward0", start + 20, 5, **sequence(number, backward=True)),
            memory(start + 1, number, 10),
            memory(start + 21, number, -10),
        ]
    assert found(tmp_path, *events).visit.tolist() == [1, 2, 3, 4]


def test_lines_and_modules_come_from_stacks_and_in_backward_from_the_forward_op(tmp_path: Path) -> None:
    def call(name: str, start: float, duration: float, number: int) -> Event:
        return event(name, start, duration, "python_function", **{"Python id": number})

    events = [
        call("train.py(10): main", 0, 100, 1),
        call("nn.Module: Model_0", 5, 30, 2),
        call("src/model.py(42): forward", 6, 28, 3),
        call("nn.Module: Linear_1", 8, 20, 4),
        call("torch/nn/modules/linear.py(125): forward", 9, 18, 5),
        event("aten::addmm", 10, 5, **sequence(1)),
        event("AddmmBackward0", 40, 10, tid=2, **sequence(1, backward=True)),
        event("aten::mm", 42, 3, tid=2),
        memory(11, 1, 10),
        memory(43, 2, 10, thread=2),
        memory(90, 3, 10),
    ]
    one = found(tmp_path, *events)
    assert texts(one, "module") == ["Model_0/Linear_1", "Model_0/Linear_1", ""]
    assert texts(one, "line") == ["model.py:42 forward", "model.py:42 forward", "train.py:10 main"]
    modules = [(band.name, band.depth) for band in one.bands if band.kind == "module"]
    assert modules == [("Model_0", 0), ("Model_0/Linear_1", 1)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps of a small model, as torch.profiler records them."""
    path = tmp_path_factory.mktemp("recorded") / "trace.json.gz"
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 16))
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(24, 32)
    with torch.profiler.profile(profile_memory=True, record_shapes=True) as profiler:
        for _ in range(3):
            optimizer.zero_grad()
            model(batch).square().sum().backward()
            optimizer.step()
            profiler.step()
    profiler.export_chrome_trace(str(path))
    return path


def test_a_recording_replays_to_the_profilers_own_count(recorded: Path) -> None:
    trace = read_trace(recorded)
    (one,) = build_ops_allocations(read_ops(trace))
    kept = trace.memory.size != 0
    counted = trace.memory.allocated[kept]
    assert (np.cumsum(one.size) - one.size[0] == counted - counted[0]).all()
    made = build_memory_account(one)
    # A process that records more than once goes on counting from the first time.
    assert made.peak_bytes - int(one.size[0]) == int(counted.max() - counted[0])


def test_a_recording_tells_ops_phases_and_shapes(recorded: Path) -> None:
    (one,) = build_ops_allocations(read_ops(read_trace(recorded)))
    made = one.size > 0
    rows = set(zip(texts(one, "op"), phases(one), texts(one, "shape"), texts(one, "dtype"), made.tolist(), strict=True))
    assert ("aten::addmm", "forward", "[24, 64]", "fp32", True) in rows
    assert ("aten::tanh", "forward", "[24, 64]", "fp32", True) in rows
    assert ("aten::mm", "backward", "[64, 32]", "fp32", True) in rows
    assert ("aten::zeros_like", "optimizer", "[64, 32]", "fp32", True) in rows
    assert {("TanhBackward0", "backward"), ("Optimizer.zero_grad#AdamW.zero_grad", "optimizer")} <= {
        (name, phase) for name, phase, _, _, allocates in rows if not allocates
    }
    largest = build_memory_account(one)
    assert {block.category for block in largest.largest_blocks} >= {"gradient", "optimizer state"}


def test_numbers_of_python_are_read_however_they_are_written(tmp_path: Path) -> None:
    """Kineto writes unsigned addresses; those above 2^63 stay distinct."""
    path = tmp_path / "trace.json"
    events: list[dict[str, Any]] = [memory(1, 2**64 - 4096, 8), memory(2, 2**64 - 8192, 8), memory(3, 2**64 - 4096, -8)]
    path.write_text(json.dumps({"traceEvents": events}))
    (one,) = build_ops_allocations(read_ops(read_trace(path)))
    made = build_memory_account(one)
    assert (made.peak_bytes, len(set(one.address.tolist()))) == (16, 2)


MIB = 1 << 20
WORKSPACE = 8_519_680  # that of cuBLAS
PRODUCT = [[2048, 8], [8, 1024]]  # 8 MiB in fp32


def shapes(folder: Path, *events: Event) -> list[str]:
    (found,) = build_ops_allocations(read_ops(read_trace(write_trace(folder / "trace.json.gz", events))))
    return [found.get_text(found.shape, event) for event in range(len(found)) if found.size[event] > 0]


def gpu(time: float, address: int, size: int) -> Event:
    return memory(time, address, size, 1)


def test_a_block_that_was_not_split_holds_the_output(tmp_path: Path) -> None:
    call = op("aten::mm", 10, 9, [[384, 8], [8, 1024]])  # 1.5 MiB
    assert shapes(tmp_path, call, gpu(11, 7, 2 * MIB)) == ["[384, 1024]"]
    assert shapes(tmp_path, call, gpu(11, 7, 5 * MIB // 2)) == ["[384, 1024]"]
    assert shapes(tmp_path, call, gpu(11, 7, 5 * MIB // 2 + 512)) == [""]
    assert shapes(tmp_path, call, memory(11, 7, 2 * MIB)) == [""], "not on a CPU"


def test_a_workspace_of_nearly_its_size_is_no_output(tmp_path: Path) -> None:
    call = op("aten::mm", 10, 9, PRODUCT)
    assert shapes(tmp_path, call, gpu(11, 7, 8 * MIB), gpu(12, 8, WORKSPACE)) == ["[2048, 1024]", ""]
    assert shapes(tmp_path, call, gpu(11, 7, 17 * MIB // 2), gpu(12, 8, WORKSPACE)) == ["", ""], "either may be it"


def test_each_call_has_outputs_of_its_own(tmp_path: Path) -> None:
    calls = [op("aten::mm", 10, 9, PRODUCT), op("aten::mm", 20, 9, PRODUCT)]
    found = shapes(tmp_path, *calls, gpu(11, 7, 17 * MIB // 2), gpu(21, 8, WORKSPACE + 512))
    assert found == ["[2048, 1024]"] * 2


def test_an_op_makes_as_many_outputs_of_a_kind_as_its_rule_says(tmp_path: Path) -> None:
    tensor = [512, 1024]
    call = op("aten::_scaled_dot_product_flash_attention_backward", 10, 9, [tensor] * 4)
    found = shapes(tmp_path, call, *(gpu(11 + each, each, 5 * MIB // 2) for each in range(3)))
    assert found == ["[512, 1024]"] * 3
    found = shapes(tmp_path, call, *(gpu(11 + each, each, 5 * MIB // 2) for each in range(4)))
    assert found == [""] * 4
