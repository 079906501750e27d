"""Bytes that are but estimated, and work of which only bounds are known: through the analysis to the rows."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.core.record.quantity import Measurement, Unknown, get_value
from perfkit.cost.fallback import RECORDED_INPUTS
from perfkit.cost.kernels.multi_tensor import NAME_AND_GRID
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, call, kernel, launch, mark, op, write_trace

PEAK, BANDWIDTH = 1e12, 1e10  # FLOP/s, B/s

CEILINGS = DeviceCeilings(
    device="cuda",
    device_name="Test GPU",
    fingerprint="",
    ceilings=tuple(
        Ceiling(level=level, dtype=dtype, value=value, unit=unit, kind=CeilingKind.DATASHEET, source="test")
        for level, dtype, value, unit in (
            (CeilingLevel.VECTOR, "bf16", 2e11, "FLOP/s"),
            (CeilingLevel.MATRIX, "bf16", PEAK, "FLOP/s"),
            (CeilingLevel.MEMORY, None, BANDWIDTH, "B/s"),
        )
    ),
)
BF16 = "c10::BFloat16"


def analysed(tmp_path: Path, *events: Event) -> RankTrace:
    path = write_trace(tmp_path / "trace.json.gz", [mark("ProfilerStep#1", 0, 2000), *events])
    return analyze_trace(read_trace(path), CEILINGS)


def only(rows: tuple[OpRow, ...]) -> OpRow:
    (row,) = rows
    return row


def blend(elements: int, busy_us: float) -> tuple[Event, ...]:
    return (
        call("mine::blend", 10, 20, ((elements,), "float")),
        launch(1, 15),
        kernel("blend_kernel", 1, 40, busy_us),
    )


def test_an_estimate_is_shown_as_one_and_counts_nowhere_as_known(tmp_path: Path) -> None:
    found = analysed(tmp_path, *blend(1000, 4.0))
    row = only(found.ops)
    assert (row.bytes, row.is_estimate, row.flops, row.attainable_s) == (4000, True, None, None)
    assert row.cost_source == RECORDED_INPUTS
    assert (found.coverage.bytes_s, found.coverage.flops_s) == (0, 0)
    assert found.coverage.estimated_s == pytest.approx(4e-6)
    assert [part.bytes for part in found.phases] == [None] * len(found.phases)


def test_an_estimate_above_the_bandwidth_is_dropped(tmp_path: Path) -> None:
    # 40 kB in 1 us would be 40 GB/s of the 10 that the memory has.
    row = only(analysed(tmp_path, *blend(10_000, 1.0)).ops)
    assert (row.bytes, row.is_estimate) == (None, False)


def attention(name: str, busy_us: float, *rest: object) -> tuple[Event, ...]:
    return (call(name, 10, 20, *rest), launch(1, 15), kernel("flash_fwd_kernel", 1, 40, busy_us))


def test_causal_attention_on_the_roofline_and_in_both_utilizations(tmp_path: Path) -> None:
    s, heads, d = 1000, 4, 64
    q = ((1, heads, s, d), BF16)
    all_pairs = 4 * heads * s * s * d
    busy_us = all_pairs / PEAK * 1e6 * 0.75  # faster than all pairs could be
    events = attention("aten::_scaled_dot_product_flash_attention", busy_us, q, q, q, 0.0, True, False, None)
    found = analysed(tmp_path, *events)
    row = only(found.ops)
    assert row.flops == 4 * heads * d * s * (s + 1) / 2
    assert not row.above_roof
    assert row.efficiency == pytest.approx(0.5005 / 0.75)
    assert isinstance(found.mfu, Measurement)
    assert isinstance(found.hfu, Measurement)
    assert found.mfu.value == pytest.approx(all_pairs / PEAK / found.step_s)
    assert found.hfu.value == found.mfu.value
    assert get_value(found.hardware_flops) == pytest.approx(row.flops)
    assert found.masked_flops == pytest.approx(all_pairs - row.flops)
    assert "PaLM, appendix B" in found.mfu.source
    assert "PaLM, appendix B" in found.hfu.source


def test_a_sparse_product_is_no_gemm_of_unknown_flops(tmp_path: Path) -> None:
    adjacency = call("aten::mm", 10, 20, ((900, 900), "float"), ((900, 40), "float"))
    adjacency["args"]["Input Strides"][0] = []
    dense = call("aten::mm", 60, 10, ((900, 40), "float"), ((40, 8), "float"))
    found = analysed(
        tmp_path,
        *(adjacency, launch(1, 15), kernel("cusparse::csrmm_gemm_kernel", 1, 20, 30)),
        *(dense, launch(2, 65), kernel("ampere_sgemm_32x32_tn", 2, 70, 10)),
    )
    assert get_value(found.model_flops) == pytest.approx(2 * 900 * 40 * 8)
    assert [row.flops for row in found.gemms] == [2 * 900 * 40 * 8]


PACKED = (((100, 8, 64), BF16),) * 3
OFFSETS = ((5,), "int")
LEAST, MOST = 4 * 64 * 8 * 4 * 25 * 26 // 2, 4 * 64 * 8 * (2 * 40 * 41 // 2 + 20 * 21 // 2)


def varlen(busy_us: float) -> tuple[Event, ...]:
    name = "flash_attn::_flash_attn_varlen_forward"
    rest = (OFFSETS, OFFSETS, 40, 40, 0.0, 0.125, True, -1, -1, 0.0, None, False, None, None, None)
    return attention(name, busy_us, *PACKED, *rest)


def test_what_data_decide_has_bounds_and_no_gain_beyond_them(tmp_path: Path) -> None:
    found = analysed(tmp_path, *varlen(100.0))
    row = only(found.ops)
    assert (row.flops, row.max_flops) == (LEAST, MOST)
    nbytes = 4 * 100 * 8 * 64 * 2 + 4 * 100 * 8
    assert (row.bytes, row.max_bytes) == (nbytes, None)
    assert row.attainable_s == pytest.approx(max(MOST / PEAK, nbytes / BANDWIDTH))
    assert found.coverage.bounded_s == found.coverage.flops_s == pytest.approx(100e-6)
    assert isinstance(found.mfu, Measurement)
    assert found.mfu.bound == "at least"


def test_the_most_is_no_more_than_the_time_allows(tmp_path: Path) -> None:
    fast = replaced_bandwidth(1e15)
    path = write_trace(tmp_path / "trace.json.gz", [mark("ProfilerStep#1", 0, 2000), *varlen(3.0)])
    row = only(analyze_trace(read_trace(path), fast).ops)
    assert LEAST / PEAK < 3e-6 < MOST / PEAK
    assert (row.attainable_s, row.above_roof, row.efficiency) == (row.seconds, False, None)


def replaced_bandwidth(value: float) -> DeviceCeilings:
    kept = [each for each in CEILINGS.ceilings if each.level != CeilingLevel.MEMORY]
    memory = Ceiling(
        level=CeilingLevel.MEMORY, dtype=None, value=value, unit="B/s", kind=CeilingKind.DATASHEET, source="test"
    )
    return replace(CEILINGS, ceilings=(*kept, memory))


def test_an_optimizer_outside_of_ops_is_costed_by_name_and_grid(tmp_path: Path) -> None:
    name = "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>, float>(int)"
    adam = kernel(name, 1, 40, 100_000)
    adam["args"] |= {"grid": [320, 1, 1], "block": [512, 1, 1], "shared memory": 0}
    found = analysed(tmp_path, launch(1, 15), adam)
    row = only(found.kernels)
    least, most = 284 * 65536 + 36, 320 * 65536
    assert (row.flops, row.max_flops) == (14 * least, 14 * most)
    assert (row.bytes, row.max_bytes) == (28 * least, 28 * most)
    assert row.cost_source == NAME_AND_GRID
    assert found.coverage.flops_s == found.coverage.bounded_s == pytest.approx(0.1)


def test_kernels_of_compiled_code_do_not_share_the_arguments_of_its_region(tmp_path: Path) -> None:
    found = analysed(
        tmp_path,
        call("CompiledFunctionBackward", 10, 20, ((1000, 1000), "float")),
        launch(1, 15),
        kernel("triton_poi_fused_add_0", 1, 40, 4000),
    )
    row = only(found.ops)
    assert (row.name, row.bytes, row.is_estimate) == ("triton_poi_fused_add_0", None, False)
    (missing,) = found.coverage.uncovered
    assert missing.name == "triton_poi_fused_add_0"
    assert missing.reason.startswith("generated code")


@pytest.mark.parametrize(
    "name",
    [
        "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNT",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x128x64_MI16x16x1",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x128x1_swiglu",
    ],
)
def test_a_product_without_its_op_says_that_nothing_tells_k(tmp_path: Path, name: str) -> None:
    within, beside = kernel(name, 1, 40, 50), kernel(name, 2, 100, 50)
    for event in (within, beside):
        event["args"] |= {"grid": [100, 50, 1], "block": [256, 1, 1]}
    found = analysed(
        tmp_path, call("CompiledFunction", 10, 20, ((1000, 1000), BF16)), launch(1, 15), launch(2, 35), within, beside
    )
    (missing,) = found.coverage.uncovered
    assert (missing.name, missing.seconds) == (name, pytest.approx(1e-4))
    assert re.search(r"\bK\b", missing.reason)
    assert all(row.flops is None and row.bytes is None for row in found.kernels)


def test_an_op_whose_formula_lacks_arguments_is_not_said_to_have_none(tmp_path: Path) -> None:
    """Versions that recorded no concrete inputs lost strides and paddings."""
    sizes = [(1, 3, 8, 8), (4, 3, 3, 3)]
    found = analysed(tmp_path, op("aten::cudnn_convolution", 10, 20, sizes), launch(1, 15), kernel("conv", 1, 40, 10))
    (missing,) = found.coverage.uncovered
    assert missing.name == "aten::cudnn_convolution"
    assert "arguments" in missing.reason


def test_attention_of_unknown_cost_leaves_utilization_unknown(tmp_path: Path) -> None:
    bf16 = ((64, 64), BF16)
    found = analysed(
        tmp_path,
        call("aten::mm", 1, 5, bf16, bf16),
        launch(2, 3),
        kernel("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", 2, 20, 10),
        call("vllm::unified_attention_with_output", 10, 20, *[((64, 8, 64), BF16)] * 4),
        launch(1, 15),
        kernel("kernel_unified_attention_2d", 1, 40, 90),
    )
    assert isinstance(found.mfu, Unknown)
    assert "10 %" in found.mfu.reason
    assert "sequence" in found.coverage.uncovered[0].reason
