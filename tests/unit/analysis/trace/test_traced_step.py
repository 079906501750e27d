"""One step of 1000 us: forward from 0 to 400 with a product of 200 us, backward to 1000 with another of 100 us."""

from pathlib import Path

import pytest

from perfkit.analysis.model.time_split import IDLE_QUEUED, NO_ESTIMATE, WAITING_FOR_CPU
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.suite.engagement import check_claims
from perfkit.analysis.suite.facts import derive_trace_facts
from perfkit.analysis.trace.rank_trace import analyze_ops
from perfkit.core.record.claim import Claim, Relation
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.suites import CEILINGS, ENVIRONMENT, changed
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace

SIZE = 100  # a product of 100 x 100 matrices: 2e6 FLOPs, 120 kB; at 1e11 FLOP/s 20 us, at 1e10 B/s 12 us
SQUARE = (SIZE, SIZE)

MARKS = [
    mark("perfkit::step#3", 0, 1000),
    mark("perfkit::forward", 0, 400),
    mark("perfkit::backward", 400, 600),
]
HOST = [
    *MARKS,
    op("aten::linear", 90, 220, [SQUARE, SQUARE]),
    op("aten::mm", 100, 200, [SQUARE, SQUARE]),
    op("aten::mm", 500, 100, [SQUARE, SQUARE], "c10::BFloat16"),
    op("aten::add", 700, 50, [SQUARE, SQUARE]),
    op("mine::secret", 800, 60),  # nothing recorded of its inputs
    mark("gloo:all_reduce", 840, 100, thread=2),
]


def read(tmp_path: Path, events: list[Event]) -> Ops:
    return read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events)))


def analysed(ops: Ops) -> RankTrace:
    return analyze_ops(ops, CEILINGS, environment=ENVIRONMENT)


def test_time_split_on_a_cpu(tmp_path: Path) -> None:
    result = analysed(read(tmp_path, HOST))
    seconds = {part.category: part.seconds for part in result.time_split}
    assert result.step_s == pytest.approx(1000e-6)
    assert seconds["compute-bound"] == pytest.approx(300e-6)
    assert seconds["memory-bound"] == pytest.approx(50e-6)
    assert seconds[NO_ESTIMATE] == pytest.approx(60e-6)
    assert seconds["communication"] == pytest.approx(80e-6)  # 20 of its 100 us ran beside an op
    assert seconds["Python and dispatch"] == pytest.approx(510e-6)
    assert sum(part.share for part in result.time_split) == pytest.approx(1)
    assert result.modeled_share == pytest.approx(350 / 410)


def test_rows_carry_cost_bound_and_efficiency(tmp_path: Path) -> None:
    first = analysed(read(tmp_path, HOST)).ops[0]
    assert (first.name, first.phase, first.calls) == ("aten::mm", "forward", 1.0)
    assert (first.flops, first.bytes) == (2e6, 120e3)
    assert first.seconds == pytest.approx(200e-6)
    assert first.attainable_s == pytest.approx(20e-6)
    assert (first.bound, first.efficiency) == ("compute", pytest.approx(0.1))
    assert first.shapes == "fp32[100,100] fp32[100,100]"


def test_points_of_ops_phases_and_the_step_add_up(tmp_path: Path) -> None:
    points = {(each.kind, each.name): each for each in analysed(read(tmp_path, HOST)).points if each.kind != "op"}
    assert points["phase", "forward"].flops == 2e6
    assert points["phase", "forward"].seconds == pytest.approx(400e-6)
    assert points["phase", "forward"].flops_per_s == pytest.approx(2e6 / 400e-6)
    step = points["step", "step"]
    assert step.flops == 2e6 + 2e6 + 1e4
    assert step.attainable_s == pytest.approx(20e-6 + 10e-6 + 12e-6)


def test_derived_facts(tmp_path: Path) -> None:
    ops = read(tmp_path, HOST)
    facts = derive_trace_facts(
        ops,
        [
            "op_calls:aten::mm,aten::linear",
            "backward_op_calls:aten::m*",
            "matmul_flops_share:bf16",
            "matmul_flops_share:fp16",
            "kernel_calls:*",
        ],
    )
    assert facts == {
        "op_calls:aten::mm,aten::linear": 3.0,
        "backward_op_calls:aten::m*": 1.0,
        "matmul_flops_share:bf16": 0.5,
        "matmul_flops_share:fp16": 0.0,
        "kernel_calls:*": 0.0,
    }


def test_without_a_matrix_product_there_is_no_share(tmp_path: Path) -> None:
    assert derive_trace_facts(read(tmp_path, MARKS), ["matmul_flops_share:bf16"]) == {}


def test_on_a_gpu_kernels_are_the_work_and_only_exposed_time_counts(tmp_path: Path) -> None:
    events = [
        mark("perfkit::step#0", 0, 100),
        mark("perfkit::forward", 0, 100),
        op("aten::mm", 10, 20, [SQUARE, SQUARE]),
        launch(1, 15),
        op("aten::copy_", 40, 20, [SQUARE, SQUARE]),
        launch(2, 45),
        launch(3, 70),
        kernel("sgemm", 1, 100, 300),
        kernel("Memcpy HtoD (Pinned -> Device)", 2, 350, 100, stream=9, cat="gpu_memcpy"),
        kernel("ncclDevKernel_AllReduce", 3, 500, 100, stream=11),
    ]
    on_gpu = changed(ENVIRONMENT, device="cuda")
    result = analyze_ops(read(tmp_path, events), changed(CEILINGS, device="cuda"), environment=on_gpu)
    seconds = {part.category: part.seconds for part in result.time_split}
    # The collective has no op around its launch, but its launch lies in the step, which therefore lasts until its end.
    assert result.step_s == pytest.approx(600e-6)
    assert seconds["compute-bound"] == pytest.approx(300e-6)
    assert seconds["copies"] == pytest.approx(50e-6)  # 50 of its 100 us ran beside the product
    assert seconds["communication"] == pytest.approx(100e-6)
    assert seconds["not recorded"] == pytest.approx(100e-6)  # until the first kernel
    assert seconds[IDLE_QUEUED] == pytest.approx(50e-6)  # from then on something was always queued
    assert seconds[WAITING_FOR_CPU] == 0
    assert result.ops[0].name == "aten::mm"
    assert result.ops[0].seconds == pytest.approx(300e-6)


GPU_CEILINGS = changed(
    CEILINGS,
    device="cuda",
    ceilings=tuple(
        Ceiling(level=level, dtype=dtype, value=value, unit="FLOP/s", kind=CeilingKind.DATASHEET, source="test")
        for level, dtype, value in ((CeilingLevel.MATRIX, "tf32", 1e12), (CeilingLevel.VECTOR, "fp32", 1e11))
    ),
)


@pytest.mark.parametrize(("setting", "dtype"), [("highest", "fp32"), ("high", "tf32")])
def test_where_a_kernels_name_tells_nothing_torchs_setting_does(setting: str, dtype: str, tmp_path: Path) -> None:
    events = [*MARKS, op("aten::mm", 100, 20, [SQUARE, SQUARE]), launch(1, 110), kernel("mine", 1, 130, 50)]
    ran_on = changed(ENVIRONMENT, device="cuda", matmul_precision=setting, conv_precision="tf32")
    result = analyze_ops(read(tmp_path, events), GPU_CEILINGS, environment=ran_on)
    (row,) = (row for row in result.ops if row.name == "aten::mm")
    assert (row.unit, row.dtype) == ("matrix", dtype)


def test_matrix_kernels_are_counted_by_the_dtype_that_their_names_tell(tmp_path: Path) -> None:
    names = (
        "nvjet_sm90_sst_128x128_64x4_2x1_v_bz_TNT",
        "ampere_tf32_s1688gemm_fp32_128x128_ldg4",
        "nvjet_sm90_tst_128x128_64x4_2x1_v_bz_TNT",
        "ampere_bf16_s1688gemm_bf16_128x128_ldg8_f2f_tn",
        "tf32_to_float_kernel",
    )
    calls = [each for number, name in enumerate(names) for each in (launch(number, 1), kernel(name, number, 100, 9))]
    facts = derive_trace_facts(
        read(tmp_path, [mark("perfkit::step#0", 0, 1000), *calls]),
        ["matmul_kernel_calls:tf32", "matmul_kernel_calls:bf16", "matmul_kernel_calls:fp16"],
    )
    assert [*facts.values()] == [2.0, 2.0, 0.0]


def test_time_of_matrix_kernels_is_summed_by_dtype(tmp_path: Path) -> None:
    """Of three fp32 products the largest runs in fp32."""
    durations = {"ampere_tf32_s1688gemm_fp32_128x128_ldg4": 9, "ampere_sgemm_128x64_tn": 27, "bf16_gemm": 50}
    calls = [
        each
        for number, (name, duration) in enumerate(durations.items())
        for each in (launch(number, 1), kernel(name, number, 100, duration))
    ]
    names = ["matmul_kernel_s:tf32", "matmul_kernel_s:tf32,fp32"]
    facts = derive_trace_facts(read(tmp_path, [mark("perfkit::step#0", 0, 1000), *calls]), names)
    assert [*facts.values()] == pytest.approx([9e-6, 36e-6])


def test_products_outside_of_compiled_graphs_leave_a_part(tmp_path: Path) -> None:
    """One block of four is compiled: its product and a quarter of the FLOPs."""
    blocks = [op("aten::mm", 100 * number + 20, 20, [SQUARE, SQUARE]) for number in range(4)]
    events = [mark("perfkit::step#0", 0, 400), mark("## Call CompiledFxGraph f1 ##", 110, 40), *blocks]
    ops = read(tmp_path, events)
    name = "compiled_flops_share"
    assert derive_trace_facts(ops, [name], 8e6) == {name: 0.25}
    assert derive_trace_facts(ops, [name]) == {}
    claim = Claim(
        technique="compile",
        statement="it acts",
        fact=name,
        relation=Relation.AT_LEAST,
        value=1.0,
        relative_to="compilable_flops_share",
        whole=True,
    )
    for compilable, outcome in ((1.0, "in part"), (0.25, "active")):
        facts = derive_trace_facts(ops, [name], 8e6) | {"compilable_flops_share": compilable}
        (result,) = check_claims([claim], [facts], None, {})
        assert result.outcome == outcome
