"""Kernels of products and attention that are far from their roofs: what is told of which, and what not."""

from typing import Any

import msgspec
import pytest

from perfkit.analysis.findings.trace_findings import collect_trace_findings
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.trace import RankTrace
from perfkit.devices.ceiling import Level
from tests.fixtures.rank_traces import attention, ceilings, gemm, rank_trace, row

H100 = "NVIDIA H100 80GB HBM3"
NO_FP8 = ceilings()
FP8 = ceilings({(Level.MATRIX, "bf16"): 80e12, (Level.MATRIX, "fp8"): 160e12})
TRY = 'Let torch.compile(mode="max-autotune") try other kernels.'


def told(known: Any = NO_FP8, **fields: Any) -> list[Finding]:
    trace: RankTrace = rank_trace(**fields)
    return list(collect_trace_findings((msgspec.structs.replace(trace, ceilings=known),), None, None))


def of_gemms(*rows: Any, known: Any = NO_FP8, **fields: Any) -> Finding | None:
    found = [each for each in told(known, gemms=rows, **fields) if each.title.startswith("GEMMs reach")]
    return found[0] if found else None


def of_attention(*rows: Any, **fields: Any) -> Finding | None:
    found = [each for each in told(attentions=rows, **fields) if each.title.startswith("Fused attention")]
    return found[0] if found else None


def test_slow_products_are_told_together_with_the_slowest_first() -> None:
    finding = of_gemms(gemm(0.2), gemm(0.4, name="aten::addmm", m=8192), gemm(0.3, attainable_s=0.27))
    assert finding is not None
    assert finding.title == "GEMMs reach 25 % of their roof"
    assert finding.evidence == (
        "those below 60 % of it take 600 ms a step (60.0 %): "
        "addmm 8192 x 16896 x 1024: 25 %, mm 4096 x 16896 x 1024: 25 %"
    )
    assert finding.gain_s == pytest.approx(0.45)
    assert finding.action == TRY
    assert finding.details == ("all of their time beyond the roof",)


@pytest.mark.parametrize(
    "silent",
    [
        gemm(0.4, bound="memory"),  # a narrow product is not slow because its arithmetic is
        gemm(0.4, bound="latency"),
        gemm(0.4, attainable_s=0.3),
        gemm(0.4, attainable_s=None),
        gemm(0.04),
        gemm(0.4, attainable_s=0.5, above_roof=True, efficiency=0.3),
    ],
)
def test_products_at_their_roof_or_bound_by_something_else_are_left_alone(silent: Any) -> None:
    assert of_gemms(silent) is None


def test_a_cpu_is_told_nothing() -> None:
    assert of_gemms(gemm(0.4), device="cpu") is None


def test_odd_sizes_are_told_once() -> None:
    shapes = {"shapes": "bf16[1024,768] bf16[768,50257]", "layout": "row,column"}
    found = told(gemms=(gemm(0.4, **shapes),), ops=(row("aten::mm", 0.4, dtype="bf16", attainable_s=0.1, **shapes),))
    assert [finding.title for finding in found] == ["GEMMs with dims that are no multiple of 8"]


def test_two_findings_on_the_same_products_say_so() -> None:
    op = row("aten::mm", 0.4, dtype="fp32", bound="compute", shapes="fp32[4096,1024] fp32[1024,16896]")
    found = told(gemms=(gemm(0.4, dtype="fp32", shapes=op.shapes),), ops=(op,))
    assert len(found) == 2
    assert all(any("gains do not add up" in detail for detail in finding.details) for finding in found)


@pytest.mark.parametrize(
    ("fields", "why", "do"),
    [
        ({"waves": 0.5, "wave_loss": 0.5, "blocks": 66}, "(66 blocks for 132 SMs)", "Have more tiles"),
        ({"waves": 1.2, "wave_loss": 0.4}, "(40 % lost to the last of 1.2 waves)", "Choose sizes"),
        ({"tile_loss": 0.45}, "(45 % lost at the edges of 128x128x64 tiles)", "Fill whole tiles"),
        ({"waves": None, "wave_loss": None, "tile_loss": None}, "25 %", "Let torch.compile"),
    ],
)
def test_what_a_product_loses_decides_what_is_advised(fields: dict[str, Any], why: str, do: str) -> None:
    finding = of_gemms(gemm(0.4, **fields))
    assert finding is not None
    assert finding.evidence.endswith(why)
    assert finding.action.startswith(do)
    assert finding.action.endswith(TRY)


def test_the_two_weightiest_causes_are_advised_on() -> None:
    small, waves, tiles = gemm(0.1, waves=0.5), gemm(0.2, wave_loss=0.4), gemm(0.3, tile_loss=0.4)
    finding = of_gemms(small, waves, tiles)
    assert finding is not None
    assert finding.action.startswith("Fill whole tiles")
    assert "Choose sizes" in finding.action
    assert "Have more tiles" not in finding.action


def test_a_cause_of_little_time_is_named_but_not_advised_on() -> None:
    finding = of_gemms(gemm(0.5), gemm(0.02, waves=0.5, blocks=66))
    assert finding is not None
    assert "(66 blocks for 132 SMs)" in finding.evidence
    assert finding.action == TRY


@pytest.mark.parametrize(("device", "tool"), [("cuda", "nvidia-smi"), ("rocm", "amd-smi")])
def test_large_products_that_lose_nothing_may_have_a_low_clock(device: str, tool: str) -> None:
    large, many = of_gemms(gemm(0.4, flops=2e11), device=device), of_gemms(gemm(0.4, flops=2e11, calls=4.0))
    assert large is not None
    assert large.action.startswith("Large products this slow may run at a low clock")
    assert tool in large.action
    assert many is not None
    assert "clock" not in many.action


def test_amd_has_tunable_op_and_fp8_is_advised_only_where_there_is_a_higher_peak() -> None:
    amd, plain, higher = of_gemms(gemm(0.4), device="rocm"), of_gemms(gemm(0.4)), of_gemms(gemm(0.4), known=FP8)
    assert amd is not None
    assert amd.action == "PYTORCH_TUNABLEOP_ENABLED=1 tries all kernels of hipBLASLt and rocBLAS."
    assert plain is not None
    assert "fp8" not in plain.action
    assert higher is not None
    assert higher.action.endswith("fp8 (torchao.float8) has a peak 2.0 times as high, where its precision suffices.")
    already = of_gemms(gemm(0.4, dtype="fp8"), known=FP8)
    assert already is not None
    assert "torchao" not in already.action


def test_slow_attention_is_told_whichever_roof_bounds_it() -> None:
    finding = of_attention(attention(0.2, bound="memory"), attention(0.4, backward=True))
    assert finding is not None
    assert finding.title == "Fused attention reaches 25 % of its roof"
    assert finding.evidence == (
        "calls below 50 % of it take 600 ms a step (60.0 %): "
        "FlashAttention-2 backward, 1024 x 1024 in heads of 64: 25 %, "
        "FlashAttention-2, 1024 x 1024 in heads of 64: 25 %"
    )
    assert finding.gain_s == pytest.approx(0.45)
    assert finding.action == (
        "Compare the backends of F.scaled_dot_product_attention with torch.nn.attention.sdpa_kernel."
    )


@pytest.mark.parametrize(
    "silent", [attention(0.4, bound="latency"), attention(0.4, attainable_s=0.22), attention(0.04)]
)
def test_attention_that_is_fast_short_or_rare_is_left_alone(silent: Any) -> None:
    assert of_attention(silent) is None


@pytest.mark.parametrize(
    ("fields", "trace", "do"),
    [
        ({"backend": "memory-efficient", "given_mask": True}, {}, "flex_attention"),
        ({"backend": "memory-efficient"}, {}, "SDPBackend.FLASH_ATTENTION"),
        ({"backend": "memory-efficient", "dtype": "fp32"}, {}, "Compare the backends"),
        ({}, {"device_name": H100}, "SDPBackend.CUDNN_ATTENTION"),
        ({"backend": "FlashAttention-3"}, {"device_name": H100}, "Compare the backends"),
        ({}, {"device_name": "NVIDIA A100-SXM4-80GB"}, "Compare the backends"),
        ({"backend": "Triton"}, {"device": "rocm"}, 'preferred_rocm_fa_library("ck")'),
        ({"waves": 0.25, "blocks": 33}, {"device_name": H100}, "splits the keys"),
    ],
)
def test_advice_on_attention_by_its_kernel_and_device(fields: dict[str, Any], trace: dict[str, Any], do: str) -> None:
    finding = of_attention(attention(0.4, **fields), **trace)
    assert finding is not None
    assert do in finding.action
