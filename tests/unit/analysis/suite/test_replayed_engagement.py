"""Whether techniques acted where torch.compile replays CUDA graphs, by their own claims."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from perfkit.analysis.model.suite import ClaimResult
from perfkit.analysis.suite.engagement import check_claims, is_engaged
from perfkit.analysis.suite.facts import derive_trace_facts, find_derived_names
from perfkit.core.record.claim import Claim
from perfkit.techniques.activations.flash import Flash
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.engines.compile import Compile
from perfkit.techniques.precision.amp import Amp
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.figures import list_figures
from tests.fixtures.graph_replays import (
    BACKWARD_PRODUCT,
    FLASH,
    FLASH_BACKWARD,
    FP32_PRODUCT,
    POINTWISE,
    PRODUCT,
    SOFTMAX,
    attention_outside,
    product_outside,
    replayed_step,
)
from tests.fixtures.traces import Event, write_trace
from tests.unit.techniques.tiny import new_state

BACKWARD = [FLASH_BACKWARD, BACKWARD_PRODUCT, POINTWISE]
EFFICIENT = "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>)"
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0"


def results(path: Path, technique: Technique, events: Sequence[Event]) -> tuple[ClaimResult, ...]:
    claims: tuple[Claim, ...] = technique.claims(new_state())
    facts = derive_trace_facts(
        read_ops(read_trace(write_trace(path / "t.json.gz", events))), find_derived_names(claims)
    )
    return check_claims(claims, [facts], None, {})


def one(path: Path, technique: Technique, events: Sequence[Event]) -> ClaimResult:
    result, *_ = results(path, technique, events)  # the others are of facts that no trace tells
    return result


def test_flash_and_amp_are_engaged_by_the_names_of_replayed_kernels(tmp_path):
    events = replayed_step([PRODUCT, FLASH, POINTWISE, PRODUCT, FLASH], BACKWARD)
    flash, amp = one(tmp_path, Flash(), events), one(tmp_path, Amp(), events)
    assert (flash.holds, flash.measured) == (True, 2.0)
    assert list_figures(flash.evidence) == ["2", "1", "2"]
    assert "replayed" in flash.evidence
    assert (amp.holds, amp.measured) == (True, 1.0)
    assert list_figures(amp.evidence) == (
        ["100.0 %", "90.0 %"]
    )  # fmt: skip


def test_math_attention_within_a_graph_is_not_flash(tmp_path):
    flash = one(tmp_path, Flash(), replayed_step([PRODUCT, SOFTMAX, PRODUCT, POINTWISE], [BACKWARD_PRODUCT, SOFTMAX]))
    assert (flash.holds, flash.measured) == (False, 0.0)
    assert "replayed no kernel" in flash.evidence


@pytest.mark.parametrize("unknown", ["attn_fwd.kd", "my_attention_kernel", "_fused_rope_and_more"])
def test_kernels_of_unknown_kind_leave_it_undecided(tmp_path, unknown):
    flash = one(tmp_path, Flash(), replayed_step([PRODUCT, unknown, POINTWISE]))
    assert flash.holds is None
    assert flash.evidence.startswith("undecided: op calls of aten::_scaled_dot_product_flash_attention")
    assert list_figures(flash.evidence.removesuffix(unknown)) == ["0", "1", "1"]
    assert flash.evidence.endswith(f": {unknown}")


def test_attention_seen_outside_of_the_graphs_does_not_speak_for_them(tmp_path):
    within = replayed_step([PRODUCT, SOFTMAX, PRODUCT], eager=attention_outside())
    assert one(tmp_path, Flash(), within).holds is None
    without_products = replayed_step([POINTWISE], eager=attention_outside())
    assert one(tmp_path, Flash(), without_products).holds is True


def test_calls_outside_and_kernels_within_are_counted_once_each(tmp_path):
    flash = one(tmp_path, Flash(), replayed_step([PRODUCT, FLASH, FLASH], eager=attention_outside()))
    assert (flash.holds, flash.measured) == (True, 3.0)


@pytest.mark.parametrize(
    ("backend", "kernel", "holds"),
    [
        ("efficient", EFFICIENT, True),
        ("efficient", FLASH, False),
        ("cudnn", CUDNN, True),
        ("flash", CUDNN, False),
        ("auto", CUDNN, True),
        ("auto", "attn_fwd.kd", True),  # AMD's serves flash and efficient alike
        ("efficient", "attn_fwd.kd", None),
        ("auto", SOFTMAX, False),
    ],
)
def test_backends(tmp_path, backend, kernel, holds):
    assert one(tmp_path, Flash(backend=backend), replayed_step([PRODUCT, kernel])).holds is holds


def test_products_in_fp32_within_graphs_are_not_amp_whatever_ran_outside(tmp_path):
    outside = product_outside("c10::BFloat16")
    amp = one(tmp_path, Amp(), replayed_step([FP32_PRODUCT] * 3, [FP32_PRODUCT] * 6, eager=outside))
    assert (amp.holds, amp.measured) == (False, pytest.approx(0.1))
    mixed = one(tmp_path, Amp(), replayed_step([PRODUCT] * 3, [BACKWARD_PRODUCT] * 6, eager=outside))
    assert (mixed.holds, mixed.measured) == (True, 1.0)


def test_templates_tell_no_dtype(tmp_path):
    template = "triton_tem_fused__to_copy_addmm_gelu_t_view_9"
    amp = one(tmp_path, Amp(), replayed_step([PRODUCT, template]))
    assert amp.holds is None
    assert list_figures(amp.evidence)[:2] == ["50.0 %", "100.0 %"]
    assert amp.evidence.endswith(template)
    few = one(tmp_path, Amp(), replayed_step([PRODUCT] * 19 + [template]))
    assert (few.holds, few.measured) == (True, 0.95)


def test_attention_of_cudnn_takes_16_bits_whichever(tmp_path):
    assert one(tmp_path, Amp(), replayed_step([PRODUCT, CUDNN])).holds is True
    assert one(tmp_path, Amp(), replayed_step([FP32_PRODUCT, CUDNN])).holds is False


def test_graphs_whose_kernels_were_not_recorded_leave_all_open(tmp_path):
    lost = replayed_step([PRODUCT, FLASH], BACKWARD, lost=True, eager=product_outside("c10::BFloat16"))
    flash, amp = one(tmp_path, Flash(), lost), one(tmp_path, Amp(), lost)
    assert (flash.holds, amp.holds) == (None, None)
    for result in (flash, amp):
        assert {"2"} <= {*list_figures(result.evidence)}


def test_reduce_overhead_replays_graphs(tmp_path):
    asked = Compile(mode="reduce-overhead")
    assert is_engaged(results(tmp_path, asked, replayed_step([PRODUCT], [PRODUCT]))[1:]) is True
    without = [event for event in replayed_step([PRODUCT]) if event["name"] != "cudaGraphLaunch"]
    *_, replays = results(tmp_path, asked, without)
    assert ("graphs" in replays.statement, replays.measured, replays.holds) == (True, 0.0, False)
