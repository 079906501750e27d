"""Kernels of products and attention that are far from their roofs: what is told of which, and what not."""

from typing import Any

import msgspec
import pytest

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.devices.ceilings.ceiling import CeilingLevel
from tests.fixtures.rank_traces import attention, ceilings, gemm, rank_trace, row

H100 = "NVIDIA H100 80GB HBM3"
NO_FP8 = ceilings()
FP8 = ceilings({(CeilingLevel.MATRIX, "bf16"): 80e12, (CeilingLevel.MATRIX, "fp8"): 160e12})
COMPARE = "torch.nn.attention.sdpa_kernel."
CAUSES = ("multiprocessors", "whole waves", "whole tiles")
TRY = 'torch.compile(mode="max-autotune")'


def told(known: Any = NO_FP8, **fields: Any) -> list[Finding]:
    trace: RankTrace = rank_trace(**fields)
    return list(collect_trace_findings((msgspec.structs.replace(trace, ceilings=known),), None, None))


def of_gemms(*rows: Any, known: Any = NO_FP8, **fields: Any) -> Finding | None:
    found = [each for each in told(known, gemms=rows, **fields) if each.id == "gemm.low_efficiency"]
    return found[0] if found else None


def of_attention(*rows: Any, **fields: Any) -> Finding | None:
    found = [each for each in told(attentions=rows, **fields) if each.id == "attention.low_efficiency"]
    return found[0] if found else None


def test_slow_products_are_told_together_with_the_slowest_first() -> None:
    finding = of_gemms(gemm(0.2), gemm(0.4, name="aten::addmm", m=8192), gemm(0.3, attainable_s=0.27))
    assert finding is not None
    assert finding.figures == {"time_s": pytest.approx(0.6), "efficiency": pytest.approx(0.25)}
    assert "addmm 8192 x 16896 x 1024: 25 %, mm 4096 x 16896 x 1024: 25 %" in finding.evidence
    assert finding.gain_s == pytest.approx(0.45)
    assert finding.action.count(TRY) == 1
    assert len(finding.details) == 1


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
    assert [(finding.id, finding.figures["multiple"]) for finding in found] == [("gemm.unaligned", 8)]


def test_two_findings_on_the_same_products_say_so() -> None:
    op = row("aten::mm", 0.4, dtype="fp32", bound="compute", shapes="fp32[4096,1024] fp32[1024,16896]")
    found = told(gemms=(gemm(0.4, dtype="fp32", shapes=op.shapes),), ops=(op,))
    assert {finding.id for finding in found} == {"gemm.fp32", "gemm.low_efficiency"}
    for finding, other in (found, reversed(found)):
        assert any(other.title in detail for detail in finding.details)


@pytest.mark.parametrize(
    ("fields", "why", "do"),
    [
        (
            {"waves": 0.5, "wave_loss": 0.5, "blocks": 66},
            "66 blocks for 132 SMs",
            "multiprocessors",
        ),
        ({"waves": 1.2, "wave_loss": 0.4}, "1.2 waves", "whole waves"),
        ({"tile_loss": 0.45}, "128x128x64 tiles", "whole tiles"),
        ({"waves": None, "wave_loss": None, "tile_loss": None}, "25 %", "torch.compile"),
    ],
)
def test_what_a_product_loses_decides_what_is_advised(fields: dict[str, Any], why: str, do: str) -> None:
    finding = of_gemms(gemm(0.4, **fields))
    assert finding is not None
    assert why in finding.evidence
    assert do in finding.action
    assert TRY in finding.action
    assert [cause in finding.action for cause in CAUSES] == [cause == do for cause in CAUSES]


def test_the_two_weightiest_causes_are_advised_on() -> None:
    small, waves, tiles = gemm(0.1, waves=0.5), gemm(0.2, wave_loss=0.4), gemm(0.3, tile_loss=0.4)
    finding = of_gemms(small, waves, tiles)
    assert finding is not None
    assert finding.action.index("whole tiles") < finding.action.index("whole waves")
    assert "multiprocessors" not in finding.action


def test_a_cause_of_little_time_is_named_but_not_advised_on() -> None:
    finding = of_gemms(gemm(0.5), gemm(0.02, waves=0.5, blocks=66))
    assert finding is not None
    assert "66 blocks for 132 SMs" in finding.evidence
    assert "multiprocessors" not in finding.action
    assert TRY in finding.action


@pytest.mark.parametrize(("device", "tool"), [("cuda", "nvidia-smi"), ("rocm", "amd-smi")])
def test_large_products_that_lose_nothing_may_have_a_low_clock(device: str, tool: str) -> None:
    large, many = of_gemms(gemm(0.4, flops=2e11), device=device), of_gemms(gemm(0.4, flops=2e11, calls=4.0))
    assert large is not None
    assert tool in large.action
    assert many is not None
    assert tool not in many.action


def test_amd_has_tunable_op_and_fp8_is_advised_only_where_there_is_a_higher_peak() -> None:
    amd, plain, higher = of_gemms(gemm(0.4), device="rocm"), of_gemms(gemm(0.4)), of_gemms(gemm(0.4), known=FP8)
    assert amd is not None
    assert "PYTORCH_TUNABLEOP_ENABLED=1" in amd.action
    assert TRY not in amd.action
    assert plain is not None
    assert "fp8" not in plain.action
    assert higher is not None
    assert "torchao.float8" in higher.action
    assert "2.0" in higher.action
    already = of_gemms(gemm(0.4, dtype="fp8"), known=FP8)
    assert already is not None
    assert "torchao" not in already.action


def test_slow_attention_is_told_whichever_roof_bounds_it() -> None:
    finding = of_attention(attention(0.2, bound="memory"), attention(0.4, backward=True))
    assert finding is not None
    assert finding.figures == {"time_s": pytest.approx(0.6), "efficiency": pytest.approx(0.25)}
    assert finding.evidence.index("FlashAttention-2 backward") < finding.evidence.index("FlashAttention-2, ")
    assert finding.evidence.count("1024 x 1024") == 2
    assert finding.gain_s == pytest.approx(0.45)
    assert COMPARE in finding.action
    assert "SDPBackend" not in finding.action


@pytest.mark.parametrize(
    "silent", [attention(0.4, bound="latency"), attention(0.4, attainable_s=0.22), attention(0.04)]
)
def test_attention_that_is_fast_short_or_rare_is_left_alone(silent: Any) -> None:
    assert of_attention(silent) is None


@pytest.mark.parametrize(
    ("fields", "trace", "do"),
    [
        ({"backend": "memory-efficient", "has_mask_tensor": True}, {}, "flex_attention"),
        ({"backend": "memory-efficient"}, {}, "SDPBackend.FLASH_ATTENTION"),
        ({"backend": "memory-efficient", "dtype": "fp32"}, {}, COMPARE),
        ({}, {"device_name": H100}, "SDPBackend.CUDNN_ATTENTION"),
        ({"backend": "FlashAttention-3"}, {"device_name": H100}, COMPARE),
        ({}, {"device_name": "NVIDIA A100-SXM4-80GB"}, COMPARE),
        ({"backend": "Triton"}, {"device": "rocm"}, 'preferred_rocm_fa_library("ck")'),
        ({"waves": 0.25, "blocks": 33}, {"device_name": H100}, "splits the keys"),
    ],
)
def test_advice_on_attention_by_its_kernel_and_device(fields: dict[str, Any], trace: dict[str, Any], do: str) -> None:
    finding = of_attention(attention(0.4, **fields), **trace)
    assert finding is not None
    assert do in finding.action
