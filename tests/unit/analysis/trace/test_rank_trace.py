"""A device trace whose figures can be added up by hand; times in microseconds, two steps.

host    | step 7: 0 to 100                          | step 8: 100 to 200
stream 7| old 0-20 | sgemm 30-50 | reduce 50-60     | relu 120-130, allreduce on stream 9: 125-225
stream 8|                          HtoD 70-80       |
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.time_split import IDLE_QUEUED, NO_ESTIMATE, WAITING_FOR_CPU
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.rank_trace import analyze_ops, analyze_trace
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.work.work_analysis import analyze_work
from perfkit.core.record.quantity import Measurement, Unknown
from perfkit.core.record.trace_marks import PHASES
from perfkit.cost.fallback import RECORDED_INPUTS
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.trace.model import Trace
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, call, kernel, launch, mark, op, write_trace

SQUARE = (100, 100)  # a product of two: 2e6 FLOPs, 120 kB

CEILINGS = DeviceCeilings(
    device="cuda",
    device_name="Test GPU",
    fingerprint="",
    ceilings=tuple(
        Ceiling(level=level, dtype=dtype, value=value, unit=unit, kind=CeilingKind.DATASHEET, source="test")
        for level, dtype, value, unit in (
            (CeilingLevel.VECTOR, "fp32", 2e11, "FLOP/s"),
            (CeilingLevel.MATRIX, "tf32", 1e12, "FLOP/s"),
            (CeilingLevel.MEMORY, None, 1e10, "B/s"),
            (CeilingLevel.HOST_LINK, None, 2e9, "B/s"),
            (CeilingLevel.INTERCONNECT, None, 1e11, "B/s"),
        )
    ),
)

COLLECTIVE = {
    "Collective name": "allreduce",
    "In msg nelems": 1_000_000,
    "Out msg nelems": 1_000_000,
    "Group size": 4,
    "dtype": "Float",
    "Process Group Description": "default_pg",
}


def with_args(event: Event, **args: Any) -> Event:
    return {**event, "args": {**event["args"], **args}}


EVENTS = [
    mark("ProfilerStep#7", 0, 100),
    mark("ProfilerStep#8", 100, 100),
    kernel("old", 90, 0, 20),
    op("aten::mm", 10, 20, [SQUARE, SQUARE]),
    launch(1, 12),
    launch(2, 14),
    kernel("ampere_sgemm_128x64_nn", 1, 30, 20),
    kernel("splitKreduce_kernel", 2, 50, 10),
    op("aten::copy_", 60, 5, [SQUARE, SQUARE]),
    launch(3, 62),
    with_args(kernel("Memcpy HtoD (Pageable -> Device)", 3, 70, 10, stream=8, cat="gpu_memcpy"), bytes=10_000),
    op("aten::relu", 110, 5, [SQUARE]),
    launch(4, 112),
    kernel("relu_kernel", 4, 120, 10),
    op("c10d::allreduce_", 114, 6),
    launch(5, 116),
    with_args(kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 125, 100, stream=9), **COLLECTIVE),
]


def read(tmp_path: Path, events: list[Event]) -> Trace:
    return read_trace(write_trace(tmp_path / "t.json.gz", events))


def analysed(tmp_path: Path, events: list[Event], ceilings: DeviceCeilings | None = CEILINGS) -> RankTrace:
    return analyze_trace(read(tmp_path, events), ceilings)


def shares(result: RankTrace) -> dict[str, float]:
    return {part.category: part.seconds * max(len(result.steps), 1) * 1e6 for part in result.time_split}


def by_name(rows: tuple[OpRow, ...]) -> dict[str, OpRow]:
    return {row.name: row for row in rows}


def test_steps_tile_the_time_from_the_end_of_what_came_before_to_the_last_kernel(tmp_path: Path) -> None:
    result = analysed(tmp_path, EVENTS)
    assert [(step.number, step.start_s, step.seconds) for step in result.steps] == [
        (7, pytest.approx(20e-6), pytest.approx(80e-6)),  # the device is busy with older work until 20
        (8, pytest.approx(100e-6), pytest.approx(125e-6)),
    ]
    assert (result.span_s, result.outside_steps_s) == (pytest.approx(225e-6), pytest.approx(20e-6))
    assert result.step_s == pytest.approx(102.5e-6)


def test_time_split(tmp_path: Path) -> None:
    result = analysed(tmp_path, EVENTS)
    found = shares(result)
    # sgemm: 2e6 FLOPs at 2e11 need 10 us, its 80 kB at 1e10 B/s 8 us; the others move bytes.
    assert found["compute-bound"] == pytest.approx(20)
    assert found["memory-bound"] == pytest.approx(10 + 10)
    assert found["communication"] == pytest.approx(95)
    assert found["copies"] == pytest.approx(10)
    # From 15 something was queued until 50; the copy was queued from 63 to 70, relu from 113 to 120.
    assert found[IDLE_QUEUED] == pytest.approx(10 + 7 + 7)
    assert found[WAITING_FOR_CPU] == pytest.approx(3 + 20 + 13)
    assert sum(found.values()) == pytest.approx(205)
    assert sum(part.share for part in result.time_split) == pytest.approx(1)
    for step in result.steps:
        assert sum(part.seconds for part in step.time_split) == pytest.approx(step.seconds)


def test_an_ops_cost_is_shared_among_its_kernels_and_not_repeated(tmp_path: Path) -> None:
    result = analysed(tmp_path, EVENTS)
    rows = by_name(result.kernels)
    product, reduction = rows["ampere_sgemm_128x64_nn"], rows["splitKreduce_kernel"]
    # Two steps: figures are halved. The reduction multiplies nothing; bytes go by time, 20 us to 10 us.
    assert (product.flops, reduction.flops) == (1e6, 0.0)
    assert (product.bytes, reduction.bytes) == (pytest.approx(40e3), pytest.approx(20e3))
    assert (product.unit, product.dtype, product.op) == ("vector", "fp32", "aten::mm")  # no tensor cores
    assert (product.attainable_s, product.efficiency) == (pytest.approx(5e-6), pytest.approx(0.5))
    whole = by_name(result.ops)["aten::mm"]
    assert (whole.flops, whole.bytes, whole.calls) == (1e6, pytest.approx(60e3), 0.5)
    assert whole.seconds == pytest.approx(15e-6)
    assert whole.attainable_s == pytest.approx(6e-6)  # its bytes: 120 kB in 12 us, in one of two steps


def test_an_fp32_product_on_tensor_cores_is_held_against_tf32(tmp_path: Path) -> None:
    events = [
        {**event, "name": "ampere_s1688gemm_tf32_128x64"} if "sgemm" in event["name"] else event for event in EVENTS
    ]
    row = by_name(analysed(tmp_path, events).kernels)["ampere_s1688gemm_tf32_128x64"]
    assert (row.unit, row.dtype) == ("matrix", "tf32")


IMAGES, FILTERS = (4, 8, 10, 10), (8, 8, 3, 3)


def convolution(name: str) -> list[Event]:
    return [
        mark("ProfilerStep#7", 0, 100),
        with_args(
            op("aten::cudnn_convolution", 10, 20, [IMAGES, FILTERS, *[()] * 7]),
            **{
                "Input type": ["float", "float", *["ScalarList"] * 3, *["Scalar"] * 4],
                "Concrete Inputs": ["", "", "[1, 1]", "[1, 1]", "[1, 1]", "1", "False", "False", "True"],
            },
        ),
        launch(1, 12),
        kernel(name, 1, 30, 20),
    ]


@pytest.mark.parametrize(
    ("name", "unit", "dtype"),
    [
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32", "matrix", "tf32"),
        ("cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1", "vector", "fp32"),
        ("a_kernel_whose_name_tells_nothing", "matrix", "tf32"),  # what cuDNN takes unless told otherwise
    ],
)
def test_a_convolution_is_held_against_what_it_ran_in(name: str, unit: str, dtype: str, tmp_path: Path) -> None:
    result = analysed(tmp_path, convolution(name))
    row = by_name(result.kernels)[name]
    assert (row.unit, row.dtype) == (unit, dtype)
    assert [(part.unit, part.dtype, part.flops) for part in result.flops_by_precision] == [(unit, dtype, row.flops)]


def test_fp32_attention_has_a_third_of_the_tf32_peak(tmp_path: Path) -> None:
    heads = (2, 4, 512, 16)
    name = "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)"
    events = [
        mark("ProfilerStep#7", 0, 100),
        call("aten::_scaled_dot_product_efficient_attention", 10, 20, *[(heads, "float")] * 3, None, False, 0.0, False),
        launch(1, 12),
        kernel(name, 1, 30, 20),
    ]
    row = by_name(analysed(tmp_path, events).kernels)[name]
    flops = 2 * 8 * 512 * 512 * (16 + 16)
    assert (row.unit, row.dtype, row.flops) == ("matrix", "3xtf32", flops)
    assert row.bound == "compute"
    assert row.attainable_s == pytest.approx(flops / (1e12 / 3))


def test_host_copies_are_held_against_the_host_link(tmp_path: Path) -> None:
    result = analysed(tmp_path, EVENTS)
    (copy,) = result.copies
    assert (copy.kind, copy.pageable, copy.bytes, copy.calls) == ("HtoD", True, 5000, 0.5)
    assert (copy.bandwidth, copy.ceiling) == (pytest.approx(1e9), 2e9)
    row = by_name(result.kernels)["Memcpy HtoD (Pageable -> Device)"]
    assert (row.bound, row.level, row.efficiency) == ("copy", "host link", pytest.approx(0.5))


def test_collectives_have_bandwidths_and_exposed_time(tmp_path: Path) -> None:
    (row,) = analysed(tmp_path, EVENTS).collectives
    assert (row.name, row.group, row.group_size, row.message_bytes) == ("allreduce", "default_pg", 4, 4_000_000)
    assert row.seconds == pytest.approx(50e-6)
    assert row.exposed_s == pytest.approx(47.5e-6)  # 5 of its 100 us run beside relu
    assert row.algorithm_bandwidth == pytest.approx(4e10)
    assert row.bus_bandwidth == pytest.approx(6e10)  # times 2 (n - 1) / n
    assert row.ceiling == 1e11


def test_what_was_launched_before_the_recording_is_kept_and_named(tmp_path: Path) -> None:
    result = analysed(tmp_path, EVENTS)
    old = by_name(result.kernels)["old"]
    assert (old.phase, old.op, old.seconds) == ("outside steps", "", pytest.approx(10e-6))
    assert by_name(result.ops)["(no op recorded)"].seconds == pytest.approx(10e-6)
    assert (result.coverage.kernels, result.coverage.kernel_s) == (6, pytest.approx(170e-6))
    assert result.coverage.linked_s == pytest.approx(150e-6)
    assert [(row.name, row.reason) for row in result.coverage.uncovered] == [("old", "no launch recorded")]
    assert result.coverage.bytes_s == result.coverage.flops_s == pytest.approx(150e-6)


def test_a_generated_kernel_without_an_op_is_told_by_its_own_name(tmp_path: Path) -> None:
    """A graph replays kernels without their ops; those of torch.compile are named for what was fused."""
    events = [kernel("triton_poi_fused_add_gelu_3", 1, 10, 20), kernel("old", 2, 40, 5), op("aten::mm", 0, 3)]
    result = analysed(tmp_path, events)
    assert {row.name: row.seconds for row in result.ops} == {
        "triton_poi_fused_add_gelu_3": pytest.approx(20e-6),
        "(no op recorded)": pytest.approx(5e-6),
    }


def test_streams_hold_all_kernels_and_split_the_whole_trace(tmp_path: Path) -> None:
    result = analysed(tmp_path, EVENTS)
    assert [(row.stream, row.kernels) for row in result.streams] == [("7", 4), ("8", 1), ("9", 1)]
    assert [row.busy_s for row in result.streams] == [pytest.approx(each) for each in (60e-6, 10e-6, 100e-6)]
    for row in result.streams:
        assert sum(part.seconds for part in row.split) == pytest.approx(row.span_s)


def test_launches(tmp_path: Path) -> None:
    launches = analysed(tmp_path, EVENTS).launches
    assert launches is not None
    assert launches.delay_s == pytest.approx(9e-6)  # 18, 36, 8, 8, 9
    assert launches.queue_depth == 0.0  # 1 when sgemm begins, 0 at the others
    assert launches.starved_s == pytest.approx(18e-6)
    assert launches.idle_s == pytest.approx(30e-6)
    assert launches.short_kernels == 0.0


def test_overlap(tmp_path: Path) -> None:
    overlap = analysed(tmp_path, EVENTS).overlap
    assert (overlap.communication_s, overlap.exposed_communication_s) == (pytest.approx(50e-6), pytest.approx(47.5e-6))
    assert (overlap.copies_s, overlap.exposed_copies_s) == (pytest.approx(5e-6), pytest.approx(5e-6))


def test_rows_are_ranked_by_what_could_be_won(tmp_path: Path) -> None:
    won = [row.seconds - row.attainable_s for row in analysed(tmp_path, EVENTS).kernels if row.attainable_s is not None]
    assert won == sorted(won, reverse=True)


def test_utilization_counts_matrix_flops_and_leaves_recomputation_out_of_mfu(tmp_path: Path) -> None:
    ops = read_ops(read(tmp_path, EVENTS))
    result = analyze_ops(ops, CEILINGS)
    assert isinstance(result.mfu, Measurement)
    assert result.mfu.value == pytest.approx(1e6 / (102.5e-6 * 2e11))
    assert result.mfu.value == result.hfu.value  # type: ignore[union-attr]
    again = replace(ops, recomputed=np.asarray([ops.name(row) == "aten::mm" for row in range(len(ops))]))
    result = analyze_ops(again, CEILINGS)
    assert isinstance(result.mfu, Measurement)
    assert isinstance(result.hfu, Measurement)
    assert (result.mfu.value, result.hfu.value) == (0.0, pytest.approx(1e6 / (102.5e-6 * 2e11)))
    assert result.recompute is not None
    assert (result.recompute.ops, result.recompute.flops) == (0.5, 1e6)
    assert result.recompute.seconds == pytest.approx(15e-6)


def test_utilization_of_the_model_leaves_the_optimizers_products_out(tmp_path: Path) -> None:
    ops = read_ops(read(tmp_path, EVENTS))
    result = analyze_ops(replace(ops, kernel_phase=np.full_like(ops.kernel_phase, PHASES.index("optimizer"))), CEILINGS)
    assert isinstance(result.mfu, Measurement)
    assert isinstance(result.hfu, Measurement)
    assert (result.mfu.value, result.hfu.value) == (0.0, pytest.approx(1e6 / (102.5e-6 * 2e11)))


def test_a_product_whose_flops_are_not_known_leaves_utilization_unknown(tmp_path: Path) -> None:
    unlinked = [*EVENTS, kernel("ampere_sgemm_32x32_tn", 91, 140, 40)]
    result = analysed(tmp_path, unlinked)
    assert isinstance(result.mfu, Unknown)
    assert "33 %" in result.mfu.reason  # 20 of 60 us


def test_faster_than_a_roof_is_flagged(tmp_path: Path) -> None:
    quick = [
        mark("ProfilerStep#1", 0, 100),
        op("aten::mm", 10, 20, [SQUARE, SQUARE]),
        launch(1, 12),
        kernel("ampere_sgemm_128x64_nn", 1, 30, 2),
    ]
    result = analysed(tmp_path, quick)
    assert result.kernels[0].above_roof
    assert result.coverage.above_roof_s == pytest.approx(2e-6)
    for row in (result.kernels[0], result.ops[0], result.gemms[0]):
        assert row.efficiency is None
        assert "10.0 GB/s" in row.efficiency_reason
    assert [row.efficiency for row in (*result.modules, *result.phases)] == [None]


def test_a_share_is_never_above_one_even_by_little(tmp_path: Path) -> None:
    # 120 kB at 1e10 B/s take 12 us: 2 % more than the kernel, which is not enough for an error of the model.
    close = [
        mark("ProfilerStep#1", 0, 100),
        op("aten::mm", 10, 20, [SQUARE, SQUARE]),
        launch(1, 12),
        kernel("ampere_sgemm_128x64_nn", 1, 30, 11.76),
    ]
    (row,) = analysed(tmp_path, close).kernels
    assert not row.above_roof
    assert row.efficiency is None
    assert "datasheet's 10.0 GB/s" in row.efficiency_reason


def test_faster_than_a_link_is_no_share_of_it(tmp_path: Path) -> None:
    quick = [
        mark("ProfilerStep#1", 0, 100),
        launch(1, 12),
        with_args(kernel("Memcpy HtoD (Pinned -> Device)", 1, 20, 2, cat="gpu_memcpy"), bytes=10_000),
        launch(2, 14),
        with_args(kernel("ncclDevKernel_AllReduce_Sum_f32", 2, 40, 10), **COLLECTIVE),
    ]
    result = analysed(tmp_path, quick)
    assert "datasheet's 2.00 GB/s" in result.copies[0].efficiency_reason  # 10 kB in 2 us
    assert "datasheet's 100 GB/s" in result.collectives[0].efficiency_reason  # 6 MB in 10 us
    slow = analysed(tmp_path, EVENTS)
    assert [row.efficiency_reason for row in (*slow.copies, *slow.collectives)] == [""] * len(
        (*slow.copies, *slow.collectives)
    )


def test_an_unknown_device_gets_no_percentages_but_all_else(tmp_path: Path) -> None:
    for ceilings in (None, DeviceCeilings(device="cuda", device_name="", fingerprint="")):
        result = analysed(tmp_path, EVENTS, ceilings)
        assert isinstance(result.mfu, Unknown)
        row = by_name(result.kernels)["ampere_sgemm_128x64_nn"]
        assert (row.efficiency, row.attainable_s, row.bound, row.flops) == (None, None, "unknown", 1e6)
        assert shares(result)["no known ceiling"] == pytest.approx(40)


def test_kernels_alone_give_a_result_with_reasons(tmp_path: Path) -> None:
    result = analysed(tmp_path, [kernel("fusion", 1, 10, 20), kernel("fusion", 2, 40, 20)])
    assert (result.steps, result.step_s, result.span_s) == ((), pytest.approx(50e-6), pytest.approx(50e-6))
    assert shares(result)["idle, cause unknown"] == pytest.approx(10)  # nothing tells what the host did
    assert shares(result)[WAITING_FOR_CPU] == shares(result)[IDLE_QUEUED] == 0
    assert result.launches is not None
    assert (result.launches.delay_s, result.launches.starved_s) == (None, None)
    assert "no launches" in result.launches.note
    assert result.coverage.uncovered[0].reason == "no launch recorded"
    assert "trace.no_ops" in [note.id for note in result.notes]


def test_clocks_that_disagree_leave_launches_unknown(tmp_path: Path) -> None:
    events = [op("aten::mm", 100, 20, [SQUARE, SQUARE]), launch(1, 110), kernel("sgemm", 1, 30, 20)]
    launches = analysed(tmp_path, events).launches
    assert launches is not None
    assert (launches.delay_s, launches.queue_depth, launches.starved_s) == (None, None, None)
    assert "clock skew" in launches.note


def test_traces_without_any_work(tmp_path: Path) -> None:
    python = {**mark("train.py(3): main", 0, 50), "cat": "python_function"}
    for events in ([], [python], [mark("mine", 0, 50)]):
        result = analysed(tmp_path, events)
        assert (result.kernels, result.ops, result.launches, result.collectives) == ((), (), None, ())
        assert isinstance(result.mfu, Unknown)
        assert result.coverage.kernel_s == 0.0
        assert "trace.no_work" in [note.id for note in result.notes]


def test_on_a_cpu_threads_take_the_place_of_streams(tmp_path: Path) -> None:
    ceilings = DeviceCeilings(
        device="cpu",
        device_name="Test CPU",
        fingerprint="",
        ceilings=(
            Ceiling(
                level=CeilingLevel.MATRIX,
                dtype="fp32",
                value=1e11,
                unit="FLOP/s",
                kind=CeilingKind.MEASURED,
                source="test",
            ),
            Ceiling(
                level=CeilingLevel.MEMORY, dtype=None, value=1e10, unit="B/s", kind=CeilingKind.MEASURED, source="test"
            ),
        ),
    )
    events = [
        mark("ProfilerStep#1", 0, 100),
        op("aten::linear", 10, 44, [SQUARE, SQUARE]),
        op("aten::mm", 12, 40, [SQUARE, SQUARE]),
        mark("gloo:all_reduce", 50, 30, thread=2),
    ]
    result = analysed(tmp_path, events, ceilings)
    assert (result.device, result.launches) == ("cpu", None)
    assert [(row.stream, row.kernels, row.busy_s) for row in result.streams] == [
        ("1 1", 1, pytest.approx(40e-6)),
        ("1 2", 1, pytest.approx(30e-6)),
    ]
    assert shares(result) == {
        "compute-bound": pytest.approx(40),
        "memory-bound": 0.0,
        NO_ESTIMATE: 0.0,
        "no known ceiling": 0.0,
        "communication": pytest.approx(28),
        "copies": 0.0,
        "Python and dispatch": pytest.approx(32),
    }
    assert isinstance(result.mfu, Measurement)
    assert result.mfu.value == pytest.approx(2e6 / (100e-6 * 1e11))


def test_a_product_that_is_faster_than_the_measured_ceiling_refutes_it(tmp_path: Path) -> None:
    low = Ceiling(
        level=CeilingLevel.MATRIX,
        dtype="fp32",
        value=1e9,
        unit="FLOP/s",
        kind=CeilingKind.MEASURED,
        source="",
        threads=2,
    )
    memory = Ceiling(
        level=CeilingLevel.MEMORY, dtype=None, value=1e10, unit="B/s", kind=CeilingKind.MEASURED, source="", threads=2
    )
    known = DeviceCeilings(device="cpu", device_name="Test CPU", fingerprint="", ceilings=(low, memory))
    result = analysed(tmp_path, [mark("ProfilerStep#1", 0, 4000), op("aten::mm", 10, 40, [SQUARE, SQUARE])], known)
    assert result.ceilings is not None
    assert [bool(ceiling.exceeded_by) for ceiling in result.ceilings.ceilings] == [True, False]
    row = by_name(result.ops)["aten::mm"]
    assert (row.attainable_s, row.efficiency, row.bound, row.above_roof) == (None, None, "unknown", False)
    assert "1.00 GFLOP/s" in row.efficiency_reason
    assert isinstance(result.mfu, Unknown)  # 2 MFLOP in 4 ms are half of that ceiling, which is none
    assert "1.00 GFLOP/s" in result.mfu.reason
    assert result.coverage.above_roof_s == 0


KERNEL = st.tuples(
    st.sampled_from(["sgemm", "relu_kernel", "ncclDevKernel_AllReduce_Sum_f32", "Memset (Device)"]),
    st.integers(0, 400),  # start
    st.integers(0, 60),  # duration
    st.integers(1, 3),  # stream
    st.one_of(st.none(), st.integers(0, 300)),  # when it was launched, if that was recorded
)


@given(st.lists(KERNEL, min_size=1, max_size=14), st.integers(0, 3))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_or_counted_twice(tmp_path: Path, kernels: list[Any], steps: int) -> None:
    assume(any(duration for _, _, duration, _, _ in kernels))  # records without a time alone tell nothing of a device
    events: list[Event] = [mark(f"ProfilerStep#{number}", number * 100, 100) for number in range(steps)]
    for number, (name, start, duration, stream, launched) in enumerate(kernels, start=1):
        cat = "gpu_memset" if name.startswith("Memset") else "kernel"
        events.append(kernel(name, number, start, duration, stream=stream, cat=cat))
        if launched is not None:
            events += [op("aten::mm", launched, 1, [SQUARE, SQUARE]), launch(number, launched + 0.2, 0.5)]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    ops: Ops = read_ops(read_trace(path))
    total_ns = sum(kernel[2] for kernel in kernels) * 1000 - int(ops.overruns.excess_ns.sum())
    found = analyze_work(ops, Roofs(CEILINGS, "cuda"))
    spans = found.windows.spans
    assert found.split.ns.sum(axis=1).tolist() == (spans[:, 1] - spans[:, 0]).tolist()
    assert (spans[1:, 0] >= spans[:-1, 1]).all()
    assert int(found.pieces.busy_ns.sum()) == total_ns
    result = analyze_ops(ops, CEILINGS)
    parts = max(len(result.steps), 1)
    assert result.coverage.kernel_s == total_ns / 1e9
    assert sum(row.busy_s for row in result.streams) == pytest.approx(total_ns / 1e9)
    for row in result.streams:
        assert sum(part.seconds for part in row.split) == pytest.approx(row.span_s)
    for rows in (result.kernels, result.ops):
        assert sum(row.seconds for row in rows) * parts == pytest.approx(total_ns / 1e9)
    known = [[row.flops for row in rows if row.flops is not None] for rows in (result.kernels, result.ops)]
    assert sum(known[0]) == pytest.approx(sum(known[1]))


def test_no_roof_follows_from_a_part_of_what_an_op_reads(tmp_path: Path) -> None:
    events = [
        mark("ProfilerStep#1", 0, 100),
        op("mine::blend", 10, 20, [SQUARE]),
        launch(1, 12),
        kernel("blend", 1, 30, 40),
    ]
    (row,) = analysed(tmp_path, events).ops
    assert (row.bytes, row.flops, row.cost_source) == (40_000, None, RECORDED_INPUTS)
    assert (row.attainable_s, row.bound) == (None, "unknown")
