"""Each rule on a trace made for it, and on the one next to it on which it must keep silent."""

from typing import Any

import msgspec
import pytest

from perfkit.analysis.model.coverage import UncoveredWork
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.idle import ELSEWHERE, LATE, PEERS, SYNC
from perfkit.analysis.model.launches import Overlap, ReplayedGraph
from perfkit.analysis.model.step import AT_LEAST, AT_MOST, LostKernels
from perfkit.analysis.model.time_split import DATA, PYTHON, UNRECORDED
from perfkit.analysis.model.trace import RankTrace, Recompute
from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.analysis.trace.findings.data_wait import find_data_wait
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import (
    call,
    ceilings,
    collective,
    copy,
    coverage,
    gap,
    launches,
    queued,
    rank_trace,
    row,
    split,
)

KNOWN = ceilings()
IDS = {kind.id for subject in SUBJECTS for kind in subject.kinds}
SCORES = "bf16[4,8,128,128]"
KEYS = "bf16[32,128,64] bf16[32,64,128]"


def told(trace: RankTrace, known: Any = KNOWN) -> list[Finding]:
    return list(collect_trace_findings((msgspec.structs.replace(trace, ceilings=known),), None, None))


def of(trace: RankTrace, finding_id: str, known: Any = KNOWN) -> Finding | None:
    """The finding of this kind, which must be one of those that exist."""
    assert finding_id in IDS
    found = [finding for finding in told(trace, known) if finding.id == finding_id]
    assert len(found) < 2
    return found[0] if found else None


def ops(*rows: Any) -> RankTrace:
    return rank_trace(ops=rows)


def test_a_trace_without_faults_has_no_findings() -> None:
    assert told(rank_trace()) == []


def mm(dtype: str, seconds: float = 0.4, **fields: Any) -> Any:
    shapes = f"{dtype}[1024,512] {dtype}[512,2048]"
    name = fields.pop("name", "aten::mm")
    return row(name, seconds, **{"dtype": dtype, "shapes": shapes, "bound": "compute", **fields})


def test_fp32_products_gain_what_the_higher_peak_allows_but_not_more_than_memory_does() -> None:
    finding = of(ops(mm("fp32", bytes=0.1e12)), "gemm.fp32")
    assert finding is not None
    peaks = {"fp32_flops_per_s": 1e13, "tf32_flops_per_s": 4e13, "bf16_flops_per_s": 8e13}
    assert finding.figures == {"time_s": 0.4, **peaks}
    assert "torch.autocast(" in finding.action
    beside = of(ops(mm("fp32", bytes=0.1e12), mm("bf16")), "gemm.fp32")
    assert beside is not None
    assert "autocast" in beside.action
    assert "set_float32_matmul_precision" not in beside.action  # other products run in 16 bits already
    # 0.4 s at 10 TFLOP/s are 0.05 s at 80, but 0.1 TB takes 0.1 s at 1 TB/s.
    assert finding.gain_s == pytest.approx(0.3)
    assert 'torch.set_float32_matmul_precision("high")' in finding.action
    assert len(finding.details) == 1


def test_products_too_small_for_their_arithmetic_gain_nothing_by_a_higher_peak() -> None:
    assert of(ops(mm("fp32", bound="latency")), "gemm.fp32") is None


@pytest.mark.parametrize(("device", "times"), [("cuda", 8.0), ("cpu", 2.0)])
def test_fp32_products_run_at_the_matrix_rate_of_a_cpu_and_on_the_cuda_cores_of_a_gpu(
    device: str, times: float
) -> None:
    known = ceilings(
        {
            (CeilingLevel.VECTOR, "fp32"): 10e12,
            (CeilingLevel.MATRIX, "fp32"): 40e12,
            (CeilingLevel.MATRIX, "bf16"): 80e12,
        }
    )
    finding = of(msgspec.structs.replace(ops(mm("fp32")), device=device), "gemm.fp32", known)
    assert finding is not None
    assert finding.figures["bf16_flops_per_s"] / finding.figures["fp32_flops_per_s"] == pytest.approx(times)


def test_convolutions_have_a_switch_of_their_own_for_tf32() -> None:
    convolution = mm("fp32", name="aten::cudnn_convolution")
    alone, beside = of(ops(convolution), "gemm.fp32"), of(ops(mm("fp32"), convolution), "gemm.fp32")
    assert alone is not None
    assert beside is not None
    switches = ("torch.backends.cudnn.allow_tf32 = True", 'torch.set_float32_matmul_precision("high")')
    assert [switch in alone.action for switch in switches] == [True, False]
    assert [switch in beside.action for switch in switches] == [True, True]
    assert "torch.autocast(" in alone.action


@pytest.mark.parametrize("known", [True, False])
def test_where_other_products_run_in_tf32_it_is_not_advised_to_allow_it(known: bool) -> None:
    peaks = {
        (CeilingLevel.VECTOR, "fp32"): 1e13,
        (CeilingLevel.MATRIX, "tf32"): 8e13,
        (CeilingLevel.MATRIX, "bf16"): 1.6e14,
    }
    roofs = ceilings(peaks) if known else None
    convolution = mm("tf32", name="aten::cudnn_convolution")
    beside, apart = (
        of(ops(mm("fp32"), mm("tf32")), "gemm.fp32", roofs),
        of(ops(mm("fp32"), convolution), "gemm.fp32", roofs),
    )
    assert beside is not None
    assert apart is not None
    assert "set_float32_matmul_precision" not in beside.action
    assert "autocast" in beside.action
    assert "set_float32_matmul_precision" in apart.action  # convolutions take TF32 unless told otherwise


@pytest.mark.parametrize(("tf32", "advised"), [(9.1e12, False), (11e12, False), (12e12, True)])
def test_tf32_is_advised_only_where_its_peak_is_higher(tf32: float, advised: bool) -> None:
    peaks = {
        (CeilingLevel.VECTOR, "fp32"): 9.1e12,
        (CeilingLevel.MATRIX, "tf32"): tf32,
        (CeilingLevel.MATRIX, "bf16"): 18.2e12,
    }
    finding = of(ops(mm("fp32"), mm("fp32", name="aten::cudnn_convolution")), "gemm.fp32", ceilings(peaks))
    assert finding is not None
    assert ("set_float32_matmul_precision" in finding.action, "allow_tf32" in finding.action) == (advised, advised)
    assert "torch.autocast(" in finding.action
    assert finding.gain_s == pytest.approx(0.4)
    assert finding.figures["tf32_flops_per_s"] == tf32


@pytest.mark.parametrize("silent", [mm("tf32"), mm("bf16"), mm("fp32", 0.005), mm("fp32", phase="outside steps")])
def test_products_on_tensor_cores_or_of_no_weight_are_left_alone(silent: Any) -> None:
    assert of(ops(silent, row("aten::x", 0.1)), "gemm.fp32") is None


def test_fp32_is_told_without_a_gain_where_the_peaks_are_not_known_and_not_where_nothing_is_higher() -> None:
    finding = of(ops(mm("fp32")), "gemm.fp32", None)
    assert finding is not None
    assert finding.gain_s is None
    assert (
        of(
            ops(mm("fp32")),
            "gemm.fp32",
            ceilings({(CeilingLevel.VECTOR, "fp32"): 1e13, (CeilingLevel.MATRIX, "bf16"): 1.2e13}),
        )
        is None
    )


def test_fp16_needs_a_scaler_where_there_is_no_bf16() -> None:
    peaks = {(CeilingLevel.VECTOR, "fp32"): 15e12, (CeilingLevel.MATRIX, "fp16"): 125e12}
    finding = of(ops(mm("fp32")), "gemm.fp32", ceilings(peaks))
    assert finding is not None
    assert 'torch.autocast("cuda", dtype=torch.float16)' in finding.action
    assert "torch.amp.GradScaler" in finding.action


def test_dims_that_are_no_multiple_of_eight() -> None:
    finding = of(ops(mm("bf16", shapes="bf16[1024,768] bf16[768,50257]", attainable_s=0.1)), "gemm.unaligned")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.3)
    assert "50257" in finding.action
    assert "50264" in finding.action
    assert finding.figures["multiple"] == 8
    assert of(ops(mm("bf16", shapes="bf16[1024,768] bf16[768,50304]", attainable_s=0.1)), "gemm.unaligned") is None
    assert of(ops(mm("fp32", shapes="fp32[1024,768] fp32[768,50257]", attainable_s=0.1)), "gemm.unaligned") is None
    assert of(ops(mm("bf16", shapes="bf16[1024,768] bf16[768,50257]", attainable_s=0.3)), "gemm.unaligned") is None


def test_the_number_of_rows_of_the_first_operand_may_be_odd() -> None:
    assert of(ops(mm("bf16", shapes="bf16[141,768] bf16[768,512]", attainable_s=0.1)), "gemm.unaligned") is None
    out = "bf16[154,1536] bf16[1536,1536] bf16[154,1536]"  # the result is no operand
    assert (
        of(ops(mm("bf16", name="aten::mm", shapes=out, layout="row,column", attainable_s=0.1)), "gemm.unaligned")
        is None
    )
    # Of the gradient of a weight the number of tokens is the inner dim, along which nothing is contiguous.
    tokens = mm("bf16", shapes="bf16[768,141] bf16[141,512]", layout="column,row", attainable_s=0.1)
    assert of(ops(tokens), "gemm.unaligned") is None
    assert of(ops(mm("bf16", shapes="bf16[128,769] bf16[769,512]", attainable_s=0.1)), "gemm.unaligned") is not None


def test_a_weighted_sum_after_a_softmax_is_no_attention_without_a_product_of_queries_and_keys() -> None:
    """Graph attention adds a score of each node to one of each neighbor."""
    parts = row("aten::bmm", 0.1, shapes="fp32[6,48,32] fp32[6,32,1]")
    weighted = row("aten::bmm", 0.1, shapes="fp32[6,48,48] fp32[6,48,32]")
    gradient = row("aten::bmm", 0.1, phase="backward", shapes="fp32[6,48,32] fp32[6,32,48]")
    softmax = row("aten::_softmax", 0.2, shapes="fp32[6,48,48]")
    assert of(ops(parts, weighted, gradient, softmax), "attention.unfused") is None
    keys = msgspec.structs.replace(gradient, phase="forward")
    assert of(ops(keys, weighted, softmax), "attention.unfused") is not None


def test_a_size_of_scores_is_named_once() -> None:
    """Layers with 2 and with 6 heads."""
    layers = [
        (
            row("aten::bmm", 0.1, shapes=f"fp32[{heads},48,32] fp32[{heads},32,48]"),
            row("aten::_softmax", 0.1, shapes=f"fp32[1,{heads},48,48]"),
        )
        for heads in (2, 6)
    ]
    finding = of(ops(*layers[0], *layers[1]), "attention.unfused")
    assert finding is not None
    assert finding.evidence.count("48 x 48") == 1


def test_dims_of_a_cpu_need_no_multiple() -> None:
    trace = ops(mm("bf16", shapes="bf16[96,768] bf16[768,1001]", attainable_s=0.1))
    assert of(trace, "gemm.unaligned") is not None
    assert of(msgspec.structs.replace(trace, device="cpu"), "gemm.unaligned") is None


def test_eight_bit_dims_must_be_multiples_of_sixteen() -> None:
    shapes = "fp8_e4m3[1024,768] fp8_e4m3[768,1000]"
    assert of(ops(mm("fp8_e4m3", shapes=shapes, attainable_s=0.1)), "gemm.unaligned") is not None


def test_attention_written_out() -> None:
    products = row("aten::bmm", 0.3, shapes=KEYS, dtype="bf16", attainable_s=0.3)
    softmax = row("aten::_softmax", 0.2, shapes=SCORES)
    dropout = row("aten::native_dropout", 0.1, shapes=SCORES)
    other = row("aten::gelu", 0.1, shapes="bf16[4,128,2048]")
    fell_back = of(ops(products, row("aten::_safe_softmax", 0.2, shapes=SCORES)), "attention.unfused")
    assert fell_back is not None
    assert "torch.nn.attention.sdpa_kernel(" in fell_back.action
    finding = of(ops(products, softmax, dropout, other), "attention.unfused")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.3)
    assert "F.scaled_dot_product_attention" in finding.action
    assert "sdpa_kernel" not in finding.action
    assert of(ops(softmax, dropout), "attention.unfused") is None  # no product of the scores: not attention
    classes = row("aten::_log_softmax", 0.2, shapes="bf16[512,1000]")
    assert of(ops(mm("bf16", shapes="bf16[512,1000] bf16[1000,8]"), classes), "attention.unfused") is None


def test_convolutions_turned_between_layouts() -> None:
    kernel = row("void cudnn::ops::nchwToNhwcKernel<float>", 0.05, op="aten::cudnn_convolution")
    finding = of(rank_trace(kernels=(kernel,)), "convolution.transposes")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.05)
    assert of(rank_trace(kernels=(row("void cudnn::implicit_gemm", 0.05),)), "convolution.transposes") is None


def test_batch_norm_in_channels_first() -> None:
    conv = row("aten::cudnn_convolution", 0.01)
    first = row("void cudnn::bn_fw_tr_1C11_singleread_specialized", 0.2, attainable_s=0.05)
    last = row("void at::native::batch_norm_transform_input_channels_last_kernel", 0.2, attainable_s=0.05)
    finding = of(rank_trace(kernels=(first,), ops=(conv,)), "batch_norm.layout")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.15)
    assert of(rank_trace(kernels=(last,), ops=(conv,)), "batch_norm.layout") is None
    assert of(rank_trace(kernels=(first,)), "batch_norm.layout") is None
    instances = msgspec.structs.replace(first, shapes="fp32[1,64,96,96] fp32[64] fp32[64]")
    assert of(rank_trace(kernels=(instances,), ops=(conv,)), "batch_norm.layout") is None


def test_convolutions_far_from_their_roof() -> None:
    slow = row("aten::cudnn_convolution", 0.5, attainable_s=0.1, bound="compute")
    finding = of(ops(slow), "convolution.low_efficiency")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.4)
    assert finding.figures == {"time_s": 0.5, "efficiency": pytest.approx(0.2)}
    assert "cudnn.benchmark" in finding.action
    assert of(ops(row("aten::cudnn_convolution", 0.5, attainable_s=0.4)), "convolution.low_efficiency") is None


def foreach(name: str, seconds: float, moved: float) -> Any:
    return row(f"aten::_foreach_{name}_", seconds, phase="optimizer", bytes=moved, attainable_s=moved / 1e12)


def test_an_optimizer_in_foreach_ops_gains_all_but_one_pass() -> None:
    finding = of(ops(foreach("mul", 0.1, 0.02e12), foreach("addcdiv", 0.1, 0.04e12)), "optimizer.unfused")
    assert finding is not None
    # addcdiv moves 16 bytes a parameter, the fused update 28: 0.07 TB at 1 TB/s.
    assert finding.gain_s == pytest.approx(0.2 - 0.07)
    assert "AdamW(fused=True)" in finding.action
    fused = row("aten::_fused_adamw_", 0.2, phase="optimizer")
    assert of(ops(fused, foreach("add", 0.01, 1e9)), "optimizer.unfused") is None
    assert of(ops(foreach("mul", 0.004, 1e9), foreach("addcdiv", 0.004, 1e9)), "optimizer.unfused") is None


def test_an_optimizer_without_addcdiv_is_told_by_its_roofs() -> None:
    finding = of(ops(foreach("mul", 0.1, 0.02e12), foreach("add", 0.1, 0.03e12)), "optimizer.unfused")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("optimizers", "advice"),
    [
        (("SGD",), "SGD(fused=True)"),
        (("Adadelta",), "Adadelta"),
        (("AdamW", "RMSprop"), "AdamW(fused=True)"),
        (("LBFGS",), None),
    ],
)
def test_fused_is_advised_where_torch_has_it(optimizers: tuple[str, ...], advice: str | None) -> None:
    rows = (foreach("mul", 0.1, 0.02e12), foreach("addcdiv", 0.1, 0.04e12))
    finding = of(
        rank_trace(ops=rows, optimizers=optimizers),
        "optimizer.unfused",
    )
    assert (finding is None) == (advice is None)
    if finding is not None and advice is not None:
        assert advice in finding.action
        assert finding.action.count("fused=True)") == len({"AdamW", "SGD"}.intersection(optimizers))
        assert finding.gain_s == pytest.approx(0.14)  # beyond its roofs: 28 bytes a parameter are Adam's


def test_clipping_is_not_the_optimizer() -> None:
    norm = row("aten::_foreach_norm", 0.3, phase="optimizer")
    assert of(ops(norm, foreach("mul", 0.1, 0.02e12)), "optimizer.unfused") is None
    scaled = row("aten::_foreach_mul_", 0.1, phase="optimizer", shapes="fp32[64,64] x27 fp32[]")
    updates = [row(f"aten::{name}_", 0.1, phase="optimizer", shapes="fp32[64,64]") for name in ("mul", "add")]
    finding = of(ops(scaled, *updates), "optimizer.unfused")
    assert finding is not None
    assert finding.figures == {"time_s": pytest.approx(0.2), "calls": 2}
    assert finding.ops == ("aten::mul_", "aten::add_")


def test_gradients_limited_before_the_update_are_not_the_optimizer() -> None:
    """clip_grad_value_ runs foreach ops before an update per parameter; Adafactor's own are part of its update."""
    updates = [row(f"aten::{name}_", 0.1, phase="optimizer", shapes="fp32[24,40]") for name in ("lerp", "addcdiv")]
    for phase, calls in (("backward", 2), ("optimizer", 4)):
        limits = [row(f"aten::_foreach_clamp_{end}_", 0.05, phase=phase) for end in ("min", "max")]
        finding = of(ops(*limits, *updates), "optimizer.unfused")
        assert finding is not None
        assert finding.figures["calls"] == calls


def pointwise(name: str, seconds: float, **fields: Any) -> Any:
    return row(f"aten::{name}", seconds, **{"attainable_s": seconds, "shapes": "fp32[1024,1024]", **fields})


def test_neighbouring_pointwise_ops_gain_all_but_their_largest_pass() -> None:
    finding = of(ops(pointwise("mul", 0.1), pointwise("add", 0.2), pointwise("gelu", 0.1)), "fusion.elementwise")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.2)
    assert "torch.compile" in finding.action


def larger(op: Any) -> Any:
    return msgspec.structs.replace(op, bound="memory")


def test_ops_too_small_to_be_bound_by_memory_are_not_said_to_be() -> None:
    rows = [pointwise(name, 0.1, bound="latency", attainable_s=0.001) for name in ("mul", "add")]
    small, large = of(ops(*rows), "fusion.elementwise"), of(ops(*map(larger, rows)), "fusion.elementwise")
    assert small is not None
    assert large is not None
    assert small.title != large.title


def test_pointwise_ops_of_other_sizes_phases_or_bounds_make_no_chain() -> None:
    mul = pointwise("mul", 0.1)
    for other in (
        pointwise("add", 0.2, shapes="fp32[512,512]"),
        pointwise("add", 0.2, phase="backward"),
        pointwise("add", 0.2, bound="compute"),
        pointwise("add", 0.2, attainable_s=None),
    ):
        assert of(ops(mul, other), "fusion.elementwise") is None


def test_a_norm_written_out() -> None:
    parts = [pointwise(name, 0.02) for name in ("pow", "mean", "rsqrt")]
    finding = of(ops(*parts), "fusion.norm")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.06)
    assert of(ops(*parts[:2]), "fusion.norm") is None


def test_a_softmax_written_out() -> None:
    parts = [pointwise("exp", 0.03), pointwise("sum", 0.02), pointwise("div", 0.02)]
    finding = of(ops(*parts), "fusion.softmax")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.04)
    assert of(ops(*parts[1:]), "fusion.softmax") is None
    elsewhere = pointwise("sum", 0.02, shapes="fp32[8]")
    assert of(ops(parts[0], elsewhere), "fusion.softmax") is None


def test_conversions_between_dtypes() -> None:
    cast = row("aten::_to_copy", 0.05, shapes="fp32[1024]")
    kernel = row("void at::native::bfloat16_copy_kernel_cuda", 0.05, op="aten::_to_copy", shapes="fp32[1024]")
    finding = of(rank_trace(ops=(cast,), kernels=(kernel,)), "dtype.conversions")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.05)
    assert of(ops(row("aten::copy_", 0.05, shapes="bf16[1024] fp32[1024]")), "dtype.conversions") is not None
    assert of(ops(row("aten::copy_", 0.05, shapes="fp32[1024] fp32[1024]")), "dtype.conversions") is None
    assert of(ops(row("aten::copy_", 0.05, shapes="bf16[8] fp32[8]", bound="copy")), "dtype.conversions") is None
    for written, told_so in ((4, True), (2, False)):
        widened = row("aten::_to_copy", 0.05, calls=3.0, shapes="bf16[1024]", bytes=3.0 * 1024 * (2 + written))
        assert (of(ops(widened), "dtype.conversions") is not None) == told_so


def test_indexed_updates() -> None:
    slow = row("aten::embedding_dense_backward", 0.1, attainable_s=0.01)
    finding = of(ops(slow), "indexing.slow_updates")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.09)
    assert of(ops(row("aten::embedding_dense_backward", 0.1, attainable_s=0.05)), "indexing.slow_updates") is None
    assert of(ops(row("aten::embedding", 0.1, attainable_s=0.01)), "indexing.slow_updates") is None


def test_zeroing() -> None:
    finding = of(ops(row("aten::_foreach_zero_", 0.02)), "fill.zeros")
    assert finding is not None
    assert "zero_grad(set_to_none=True)" in finding.action
    assert of(ops(row("aten::_foreach_zero_", 0.005)), "fill.zeros") is None


def test_recomputation() -> None:
    finding = of(rank_trace(recompute=Recompute(ops=10, seconds=0.2, flops=1.0)), "checkpointing.recompute")
    assert finding is not None
    assert finding.gain_s == 0.2
    assert of(rank_trace(recompute=Recompute(ops=1, seconds=0.001, flops=1.0)), "checkpointing.recompute") is None


def test_a_starved_device_is_host_bound() -> None:
    finding = of(rank_trace(launches=launches(starved_s=0.3)), "launch.cpu_bound")
    assert finding is not None
    assert (finding.gain_s, finding.figures) == (0.3, {"idle_s": 0.3, "share": 0.3})
    assert 'torch.compile(mode="reduce-overhead")' in finding.action
    # Idle with work queued is not the host's.
    assert of(rank_trace(launches=launches(idle_s=0.3, starved_s=0.0)), "launch.cpu_bound") is None


PREPROCESS = gap(0.218, frame="/home/me/data.py(31): preprocess", builtin="<built-in function sum>", next_op="aten::mm")


def test_a_long_gap_is_named_by_what_the_host_was_in_and_is_no_matter_of_launches() -> None:
    trace = rank_trace(launches=launches(starved_s=0.22, late_s=0.002), gaps=(PREPROCESS, gap(0.002)))
    assert of(trace, "launch.cpu_bound") is None
    finding = of(trace, "idle.long_gaps")
    assert finding is not None
    assert "preprocess (data.py:31)" in finding.title
    for told_of in ("218 ms", "sum in preprocess (data.py:31)", "aten::mm", "2.00 ms"):
        assert told_of in finding.evidence
    assert "DataLoader" in finding.action
    assert finding.figures == {"idle_s": pytest.approx(0.22), "share": pytest.approx(0.22)}
    assert finding.gain_s == pytest.approx(0.22)


def test_in_ops_and_calls_that_launch_nothing_for_long_the_advice_is_another() -> None:
    finding = of(rank_trace(gaps=(gap(0.2, call="hipLaunchKernel", op="aten::add_", range="train"),)), "idle.long_gaps")
    assert finding is not None
    for place in ("hipLaunchKernel", "aten::add_", "train"):
        assert place in finding.title
    assert "warm-up" in finding.action


def test_gaps_of_which_nothing_was_recorded_ask_for_stacks_and_small_ones_are_not_told() -> None:
    finding = of(rank_trace(gaps=(gap(0.2),)), "idle.long_gaps")
    assert finding is not None
    assert finding.figures["share"] == pytest.approx(0.2)
    assert "with_stack=True" in finding.action
    assert of(rank_trace(gaps=(gap(0.005),)), "idle.long_gaps") is None


def test_the_times_of_long_gaps_sum_to_that_of_the_finding() -> None:
    rare = gap(0.03, frame="a.py(4): f", gaps=0.1, longest_s=0.3)
    finding = of(rank_trace(gaps=(rare, gap(0.04, frame="a.py(9): g"))), "idle.long_gaps")
    assert finding is not None
    assert all(time in finding.evidence for time in ("70.0 ms", "30.0 ms", "300 ms", "40.0 ms"))


def test_idle_time_with_work_queued_is_explained() -> None:
    starting = queued(launching_s=0.06, launching_gaps=4000.0, between_s=0.04, between_gaps=20_000.0)
    short = of(rank_trace(launches=launches(queued_idle=starting)), "launch.latency")
    assert short is not None
    assert (short.severity, short.gain_s) == ("gain", pytest.approx(0.1))
    assert short.figures == {
        "share": pytest.approx(0.1), "launching_s": 0.06, "between_s": 0.04, "launching_gaps": 4000,
        "between_gaps": 20_000,
    }  # fmt: skip
    long = of(
        rank_trace(launches=launches(queued_idle=queued(long_s=0.3, long_gaps=8.0, same_stream_s=0.24, longest_s=0.1))),
        "launch.blocked",
    )
    assert long is not None
    assert (long.severity, long.gain_s) == ("note", None)
    assert long.figures == {
        "idle_s": 0.3, "gaps": 8, "longest_s": 0.1, "same_stream_share": pytest.approx(0.8),
    }  # fmt: skip
    assert "gemm" in long.evidence
    assert told(rank_trace(launches=launches(queued_idle=queued(between_s=0.04, long_s=0.04)))) == []


@pytest.mark.parametrize("device", ["mtia", "xpu", "cpu"])
def test_advice_names_nothing_that_the_device_does_not_have(device: str) -> None:
    busy = launches(
        starved_s=0.3,
        short_kernels=900.0,
        short_s=0.2,
        short_gap_s=0.1,
        queued_idle=queued(between_s=0.1, between_gaps=10.0),
    )
    trace = rank_trace(
        device=device,
        launches=busy,
        time_split=split(**{PYTHON: 0.3}),
        host_calls=(call("wait", "synchronize", 3.0, 0.1), call("allocation", "malloc", 3.0, 0.1)),
        ops=(mm("fp32"), mm("fp32", name="aten::convolution", attainable_s=0.01)),
    )
    for known in (KNOWN, None):
        found = told(trace, known)
        assert len(found) > 3
        for finding in found:
            assert "cuda" not in finding.action.lower(), finding


def test_where_graphs_are_in_use_the_advice_is_to_use_more_of_them() -> None:
    finding = of(rank_trace(launches=launches(starved_s=0.3, graph_launches=2.0)), "launch.cpu_bound")
    assert finding is not None
    assert "graphs" in finding.action
    assert "make_graphed_callables" not in finding.action


def test_on_a_cpu_the_split_says_what_is_the_hosts() -> None:
    share = split(**{"memory-bound": 0.6, PYTHON: 0.4})
    assert (
        of(
            rank_trace(device="cpu", launches=None, time_split=share),
            "cpu.dispatch",
        )
        is not None
    )


def test_waits_name_the_op_and_what_to_do() -> None:
    waiting = (
        call("wait", "cudaStreamSynchronize", 3, 0.1, "aten::item"),
        call("wait", "cudaDeviceSynchronize", 1, 0.02),
    )
    finding = of(rank_trace(host_calls=waiting), "sync.item")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.12)
    assert finding.figures == {"idle_s": pytest.approx(0.12), "calls": 4}
    assert finding.ops == ("aten::item", "cudaDeviceSynchronize")
    assert "cudaStreamSynchronize in aten::item (3)" in finding.evidence
    assert "loss.detach()" in finding.action
    assert of(rank_trace(host_calls=(call("wait", "cudaStreamSynchronize", 3, 0.001),)), "sync.other") is None
    assert of(rank_trace(host_calls=(call("wait", "cudaStreamSynchronize", 3, None),)), "sync.other") is None


def test_a_wait_for_the_shape_of_a_result() -> None:
    waiting = (call("wait", "cudaStreamSynchronize", 2, 0.06, "aten::nonzero"),)
    finding = of(rank_trace(host_calls=waiting), "sync.data_dependent_shape")
    assert finding is not None
    assert (finding.gain_s, finding.ops) == (0.06, ("aten::nonzero",))
    assert "torch.where" in finding.action


@pytest.mark.parametrize(("missing", "idle", "listed"), [(0.5, 0.03, False), (0.5, 0.08, True), (0.05, 0.03, True)])
def test_a_gain_far_smaller_than_what_was_not_recorded_is_left_out(missing: float, idle: float, listed: bool) -> None:
    waiting = (call("wait", "cudaStreamSynchronize", 3, idle, "aten::item"),)
    silent = rank_trace(host_calls=waiting, time_split=split(**{UNRECORDED: missing, "memory-bound": 1 - missing}))
    counted = LostKernels(launched=1000, lost=int(1000 * missing), without_time=0, share=missing)
    unanswered = rank_trace(host_calls=waiting, lost_kernels=counted)
    for trace in (silent, unanswered):
        finding = of(trace, "sync.item")
        assert (finding is not None) == listed
        if finding is not None and trace is silent:
            assert [figure for detail in finding.details for figure in list_figures(detail)] == (
                [f"{missing:.0%}".replace("%", " %")] if missing > 0.1 else []
            )


def test_allocations_in_the_step() -> None:
    finding = of(rank_trace(host_calls=(call("allocation", "cudaMalloc", 7, 0.05),)), "sync.device_allocation")
    assert finding is not None
    assert finding.figures == {"idle_s": 0.05, "calls": 7}
    assert "expandable_segments" in finding.action
    assert of(rank_trace(host_calls=(call("allocation", "cudaMalloc", 7, 0.0),)), "sync.device_allocation") is None


def test_where_no_allocator_caches_memory_expandable_segments_mend_nothing() -> None:
    calls = (call("allocation", "hipMalloc", 90, 0.01), call("allocation", "hipFree", 80, 0.2))
    finding = of(rank_trace(device="rocm", host_calls=calls, has_uncached_allocations=True), "sync.device_allocation")
    assert finding is not None
    assert finding.figures == {"idle_s": pytest.approx(0.21), "calls": 170}
    assert "PYTORCH_NO_CUDA_MEMORY_CACHING" in finding.action
    assert "expandable_segments" not in finding.action


@pytest.mark.parametrize(("trains", "told"), [(False, True), (None, False), (True, False)])
def test_inference_that_records_a_graph(trains: bool | None, told: bool) -> None:
    trace = rank_trace(trains=trains, records_graph=True)
    assert (of(trace, "inference.records_graph") is not None) == told
    assert of(rank_trace(trains=False), "inference.records_graph") is None


def test_a_step_that_waits_for_data() -> None:
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    finding = of(rank_trace(host_calls=(call("data", name, 1, 0.3),)), "data.starved")
    assert finding is not None
    assert "num_workers" in finding.action
    assert of(rank_trace(host_calls=(call("data", name, 1, 0.0),)), "data.starved") is None
    # Without a device its own time is what it costs.
    assert of(rank_trace(device="cpu", host_calls=(call("data", name, 1, None),)), "data.starved") is not None


@pytest.mark.parametrize(
    ("device", "idle_s", "share", "gain_s"),
    [("cpu", None, 0.4, 0.4), ("cpu", None, 0.04, None), ("cuda", 0.3, 0.4, 0.3), ("cuda", 0.01, 0.4, None)],
)
def test_of_a_bench_what_timed_steps_waited_counts(
    device: str, idle_s: float | None, share: float, gain_s: float | None
) -> None:
    """The traced step of a second, in which workers were ahead, waited for 20 ms."""
    trace = rank_trace(device=device, host_calls=(call("data", "enumerate(DataLoader)", 1, idle_s),))
    found = [result.finding for result in find_data_wait(TraceView(trace, step_s=1.0, data_wait_share=share))]
    assert [finding.gain_s for finding in found] == ([] if gain_s is None else [pytest.approx(gain_s)])
    for finding in found:
        assert finding.id == "data.starved"
        idle = {} if idle_s is None else {"idle_s": idle_s}
        assert finding.figures == {"wait_s": pytest.approx(0.4), "share": 0.4, **idle}


def test_many_short_kernels() -> None:
    taxed = launches(short_kernels=10000.0, short_s=0.03, short_gap_s=0.2)
    finding = of(rank_trace(launches=taxed), "launch.short_kernels")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.05)  # 5 us to start each; the rest of the idle time is the host's own
    hidden = launches(short_kernels=10000.0, short_s=0.03, short_gap_s=0.0)
    assert of(rank_trace(launches=hidden), "launch.short_kernels") is None


def exposed(seconds: float) -> Overlap:
    return Overlap(communication_s=0.5, exposed_communication_s=seconds, copies_s=0.0, exposed_copies_s=0.0)


def test_exposed_communication_names_what_hides_it() -> None:
    reduced = rank_trace(
        overlap=exposed(0.2), collectives=(collective("allreduce", 0.2),), ops=(mm("bf16", phase="backward"),)
    )
    finding = of(reduced, "comm.exposed")
    assert finding is not None
    assert finding.gain_s == 0.2
    assert finding.figures == {"exposed_s": 0.2, "hidden_share": pytest.approx(0.6)}
    assert "bucket_cap_mb" in finding.action
    sharded = of(rank_trace(overlap=exposed(0.2), collectives=(collective("_allgather_base", 0.2),)), "comm.exposed")
    assert sharded is not None
    assert "prefetch" in sharded.action
    experts = of(rank_trace(overlap=exposed(0.2), collectives=(collective("all_to_allv", 0.2),)), "comm.exposed")
    assert experts is not None
    assert "async_op=True" in experts.action
    assert of(rank_trace(overlap=exposed(0.0), collectives=(collective("allreduce", 0.0),)), "comm.exposed") is None


def test_a_step_without_a_backward_pass_reduces_no_gradients() -> None:
    reduced: dict[str, Any] = {
        "overlap": exposed(0.2),
        "collectives": (collective("allreduce", 0.2, message_bytes=4096),),
    }
    forward, backward = mm("bf16", phase="forward"), mm("bf16", phase="backward")
    graph = ReplayedGraph(nodes=100, launches=2, seconds=0.3, joined_nodes=100, capture="a")
    for finding_id in ("comm.exposed", "comm.small_messages"):
        inferring = of(rank_trace(**reduced, ops=(forward,), trains=False), finding_id)
        training = of(rank_trace(**reduced, ops=(forward, backward)), finding_id)
        unknown = of(rank_trace(**reduced, ops=(forward,), trains=False, graphs=(graph,)), finding_id)
        assert inferring is not None
        assert training is not None
        assert unknown is not None
        assert "bucket_cap_mb" not in inferring.action
        assert "bucket_cap_mb" in training.action
        assert "bucket_cap_mb" in unknown.action
    gathered: dict[str, Any] = {"overlap": exposed(0.2), "collectives": (collective("_allgather_base", 0.2),)}
    sharded = of(rank_trace(**gathered, ops=(forward,), trains=False), "comm.exposed")
    assert sharded is not None
    assert "backward" not in sharded.action


def test_large_messages_below_the_links_rate() -> None:
    slow = collective("allreduce", 0.2, bus_bandwidth=1e10)
    finding = of(rank_trace(collectives=(slow,)), "comm.slow_link")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.2 * 0.9)
    assert finding.figures["bandwidth"] == 1e10
    assert finding.figures["bandwidth"] / finding.figures["link_bandwidth"] == pytest.approx(0.1)
    for silent in (
        collective("allreduce", 0.2),
        collective("allreduce", 0.2, bus_bandwidth=1e10, message_bytes=1000),
        collective("allreduce", 0.2, bus_bandwidth=1e10, ceiling=None),
        collective("allreduce", 0.0, bus_bandwidth=1e10),
    ):
        assert of(rank_trace(collectives=(silent,)), "comm.slow_link") is None


def test_many_small_messages() -> None:
    small = collective("allreduce", 0.05, message_bytes=4096, calls=200.0)
    overlap = Overlap(communication_s=0.1, exposed_communication_s=0.05, copies_s=0.0, exposed_copies_s=0.0)
    finding = of(rank_trace(collectives=(small,), overlap=overlap), "comm.small_messages")
    assert finding is not None
    assert finding.figures == {"exposed_s": pytest.approx(0.05), "calls": 200}
    assert (
        of(rank_trace(collectives=(collective("allreduce", 0.05, message_bytes=2**22),)), "comm.small_messages") is None
    )


def test_messages_of_pipeline_stages_and_barriers_are_no_small_collectives_to_combine() -> None:
    overlap = Overlap(communication_s=0.2, exposed_communication_s=0.2, copies_s=0.0, exposed_copies_s=0.0)
    sums = collective("allreduce", 0.02, message_bytes=8192, calls=50.0)
    others = [
        collective(name, 0.06, message_bytes=1024, calls=8.0, kind=kind)
        for name, kind in (("send", "send"), ("recv", "receive"), ("barrier", "barrier"))
    ]
    finding = of(rank_trace(collectives=(*others, sums), overlap=overlap), "comm.small_messages")
    assert finding is not None
    assert finding.figures == {"exposed_s": pytest.approx(0.02), "calls": 50}
    assert of(rank_trace(collectives=tuple(others), overlap=overlap), "comm.small_messages") is None


def test_pageable_copies() -> None:
    finding = of(rank_trace(copies=(copy("HtoD", 0.05, pageable=True),)), "copy.pageable")
    assert finding is not None
    assert "pin_memory=True" in finding.action
    assert "non_blocking=True" in finding.action
    assert of(rank_trace(copies=(copy("HtoD", 0.05, pageable=False),)), "copy.pageable") is None
    assert of(rank_trace(copies=(copy("HtoD", 0.05, pageable=None),)), "copy.pageable") is None


def test_copies_of_unknown_size_are_not_called_empty() -> None:
    for pageable, finding_id in ((True, "copy.pageable"), (False, "copy.exposed")):
        told = of(rank_trace(copies=(copy("HtoD", 0.2, pageable=pageable, bytes=None, bandwidth=None),)), finding_id)
        assert told is not None
        assert "HtoD" in told.evidence
        assert "0 B" not in told.evidence


def test_exposed_copies_of_pinned_memory() -> None:
    assert of(rank_trace(copies=(copy("DtoH", 0.2, pageable=False),)), "copy.exposed") is not None
    assert of(rank_trace(copies=(copy("DtoD", 0.2, pageable=None),)), "copy.exposed") is None


def test_a_refuted_ceiling_of_this_machine_is_a_warning() -> None:
    low = Ceiling(
        level=CeilingLevel.MATRIX, dtype="fp32", value=1e9, unit="FLOP/s",
        kind=CeilingKind.MEASURED, source="", threads=2,
        measured_at="2026-01-31T10:00:00",
        exceeded_by="work ran faster than 1.00 GFLOP/s; measure it again with `this`",
    )  # fmt: skip
    known = DeviceCeilings(device="cpu", device_name="", fingerprint="", ceilings=(low,))
    first = told(rank_trace(), known)[0]
    assert (first.severity, first.id) == ("warning", "limit.exceeded_ceilings")
    assert "fp32 matrix" in first.title
    assert "2026-01-31" in first.evidence
    assert "1.00 GFLOP/s" in first.evidence
    assert "`this`" in first.action


def test_above_the_roof_is_a_warning_and_comes_first() -> None:
    wrong = rank_trace(
        coverage=coverage(above_roof_s=0.1), ops=(row("aten::odd", 0.1, above_roof=True),), step_basis=""
    )
    first = told(wrong)[0]
    assert (first.severity, first.id) == ("warning", "limit.above_roof")
    assert first.figures == {"time_s": 0.1, "share": pytest.approx(0.1)}
    assert "aten::odd" in first.evidence
    assert of(rank_trace(coverage=coverage(above_roof_s=0.005)), "limit.above_roof") is None


def test_unlinked_kernels() -> None:
    finding = of(rank_trace(coverage=coverage(linked_s=0.7)), "limit.unlinked_kernels")
    assert finding is not None
    assert finding.severity == "note"
    assert finding.figures == {"time_s": pytest.approx(0.3), "share": pytest.approx(0.3)}
    assert of(rank_trace(coverage=coverage(linked_s=0.995)), "limit.unlinked_kernels") is None


def test_kernels_of_graphs_whose_capture_is_not_known() -> None:
    graphs = (
        ReplayedGraph(nodes=100, launches=2, seconds=0.3, joined_nodes=100, capture="a"),
        ReplayedGraph(nodes=10, launches=1, seconds=0.2, reason="none of 1 captures fits its 10 nodes"),
    )
    replayed = rank_trace(coverage=coverage(linked_s=0.7), graphs=graphs)
    finding = of(replayed, "limit.unknown_graphs")
    assert finding is not None
    assert finding.figures["share"] == pytest.approx(0.2)
    assert graphs[1].reason in finding.evidence
    assert "--capture" in finding.action
    unlinked = of(replayed, "limit.unlinked_kernels")
    assert unlinked is not None
    assert unlinked.figures["share"] == pytest.approx(0.1)
    known = rank_trace(graphs=graphs[:1])
    assert of(known, "limit.unknown_graphs") is None


def test_low_coverage_names_what_is_missing() -> None:
    missing = (UncoveredWork(name="custom::op", seconds=0.4, share=0.4, reason="no formula"),)
    finding = of(rank_trace(coverage=coverage(flops_s=0.6, uncovered=missing)), "limit.unmodeled_kernels")
    assert finding is not None
    assert finding.figures == {"flops_share": pytest.approx(0.6), "bytes_share": pytest.approx(1.0)}
    assert "custom::op (40.0 %: no formula)" in finding.evidence
    assert of(rank_trace(coverage=coverage(flops_s=0.95)), "limit.unmodeled_kernels") is None


def test_of_a_device_that_was_not_recorded_no_coverage_is_told() -> None:
    low = coverage(flops_s=0.6)
    assert of(rank_trace(coverage=low, missing_device_reason="no kernels"), "limit.unmodeled_kernels") is None
    on_cpu = of(rank_trace(coverage=low, device="cpu"), "limit.unmodeled_kernels")
    assert on_cpu is not None
    assert on_cpu.figures == {"flops_share": pytest.approx(0.6), "bytes_share": pytest.approx(1.0)}
    assert "kernel" not in on_cpu.title


def test_few_kernels_in_many_steps_are_not_none() -> None:
    (found,) = told(rank_trace(launches=launches(starved_s=0.3, kernels=0.5)))
    assert "0.5 kernels" in found.evidence


def test_without_shapes_that_is_the_reason_told() -> None:
    bare = rank_trace(ops=(row("aten::mm", 0.5, shapes=""),), coverage=coverage(flops_s=0.0, bytes_s=0.0))
    assert [finding.id for finding in told(bare)] == ["limit.no_shapes"]


def test_work_whose_costs_need_no_shapes_lacks_none() -> None:
    known = rank_trace(ops=(row("gloo:all_reduce", 0.5, shapes=""),), coverage=coverage(flops_s=1.0, bytes_s=1.0))
    assert of(known, "limit.no_shapes") is None


def test_an_unknown_device() -> None:
    finding = of(rank_trace(device_name="Future GPU"), "limit.no_ceilings", None)
    assert finding is not None
    assert "Future GPU" in finding.evidence
    assert "--device" in finding.action


def test_what_slowed_the_host_down() -> None:
    assert of(rank_trace(properties={"with_stack": "1"}), "limit.profiler_overhead") is not None
    assert of(rank_trace(properties={"with_stack": "0", "record_shapes": "1"}), "limit.profiler_overhead") is None


def test_no_steps() -> None:
    assert of(rank_trace(steps=()), "limit.no_steps") is not None


def test_a_trace_of_nothing_is_told_what_it_lacks_and_no_more() -> None:
    empty = rank_trace(
        ops=(),
        steps=(),
        step_s=0.0,
        span_s=0.0,
        time_split=(),
        launches=None,
        coverage=coverage(kernel_s=0.0, linked_s=0.0),
    )
    assert [finding.id for finding in told(empty)] == ["limit.no_steps"]


def test_what_makes_a_batch_is_nothing_to_compile() -> None:
    names = ("mul", "add", "gelu")
    assert of(ops(*(pointwise(name, 0.1) for name in names)), "fusion.elementwise") is not None
    assert of(ops(*(pointwise(name, 0.1, phase="data") for name in names)), "fusion.elementwise") is None


def lost(count: int, *, known_fault: bool = False) -> LostKernels:
    profiler = "CUPTI 13.0" if known_fault else ""
    return LostKernels(
        launched=10_000, lost=count, without_time=count // 4, share=count / 10_000, profiler=profiler,
        known_fault=known_fault,
    )  # fmt: skip


def test_lost_kernels_come_with_what_to_do() -> None:
    finding = of(rank_trace(lost_kernels=lost(400)), "limit.lost_kernels")
    assert finding is not None
    assert finding.severity == "warning"
    for number in ("10,000", "300", "100"):
        assert number in finding.evidence
    assert "KINETO_LOG_LEVEL=0" in finding.action
    known = of(rank_trace(lost_kernels=lost(400, known_fault=True)), "limit.lost_kernels")
    assert known is not None
    assert "CUPTI 13.0" in known.action


@pytest.mark.parametrize("few", [None, lost(0), lost(10)])
def test_one_in_a_thousand_is_no_finding(few: LostKernels | None) -> None:
    assert told(rank_trace(lost_kernels=few)) == []


def test_gains_in_kernels_are_at_least_and_in_idle_time_at_most_where_kernels_were_lost() -> None:
    rows = (mm("fp32"),)
    for count, bound in ((0, AT_MOST), (400, AT_LEAST)):
        few = launches(starved_s=0.3, kernels=18.0, idle_bound=AT_MOST if count else "")
        found = told(rank_trace(ops=rows, launches=few, lost_kernels=lost(count)))
        gains = {finding.id: finding.gain_bound for finding in found if finding.gain_s is not None}
        assert set(gains.values()) == {AT_MOST, bound}
        assert gains["launch.cpu_bound"] == AT_MOST
        (late,) = (finding for finding in found if finding.id == "launch.cpu_bound")
        assert ("18 recorded kernels" in late.evidence) == (count > 0)


def test_functions_that_a_trace_names_are_told_of_late_launches_and_of_waits() -> None:
    collate, small = "/home/me/train.py(88): collate", "/home/me/other.py(1): small"
    rows = (
        gap(0.2, cause=LATE, user_frame=collate, op="aten::mm"),
        gap(0.1, cause=LATE, user_frame=collate, op="aten::add"),
        gap(0.08, cause=LATE),
        gap(0.02, cause=LATE, user_frame=small),
        gap(0.06, cause=SYNC, user_frame=collate),
    )
    trace = rank_trace(launches=launches(starved_s=0.46, late_s=0.4), gaps=rows)
    finding = of(trace, "launch.cpu_bound")
    assert finding is not None
    assert finding.figures["share"] == pytest.approx(0.4)
    assert "75 %" in finding.evidence
    assert "collate (train.py:88)" in finding.evidence
    assert "small" not in finding.evidence
    waited = rank_trace(host_calls=(call("wait", "cudaStreamSynchronize", 1.0, 0.06),), gaps=rows)
    finding = of(waited, "sync.other")
    assert finding is not None
    assert "100 %" in finding.evidence
    assert "collate (train.py:88)" in finding.evidence


def test_a_host_in_a_collective_waits_for_the_others() -> None:
    finding = of(rank_trace(gaps=(gap(0.2, cause=PEERS, range="gloo:all_reduce"),)), "idle.long_gaps")
    assert finding is not None
    assert "gloo:all_reduce" in finding.title
    assert "async_op=True" in finding.action
    unnamed = of(rank_trace(gaps=(gap(0.2, cause=PEERS),)), "idle.long_gaps")
    assert unnamed is not None
    assert f"{PEERS} (200 ms)" in unnamed.evidence


def test_findings_about_the_host_name_the_idle_time_and_the_calls() -> None:
    waiting = of(
        rank_trace(
            host_calls=(
                call("wait", "cudaStreamSynchronize", 3, 0.1, op="aten::item"),
                call("wait", "cudaDeviceSynchronize", 1, 0.05),
            ),
            gaps=(gap(0.15, cause=SYNC), gap(0.1)),
        ),
        "sync.item",
    )
    assert waiting is not None
    assert (waiting.ops, waiting.idle_causes) == (("aten::item", "cudaDeviceSynchronize"), (SYNC,))
    gaps = of(rank_trace(gaps=(gap(0.2, cause=PEERS), gap(0.1), gap(0.05))), "idle.long_gaps")
    assert gaps is not None
    assert gaps.idle_causes == (PEERS, ELSEWHERE)
    fetch = call("data", "enumerate(DataLoader)", 1, 0.3)
    loader = of(rank_trace(host_calls=(fetch,), gaps=(gap(0.3, cause=DATA),)), "data.starved")
    assert loader is not None
    assert (loader.ops, loader.idle_causes) == (("enumerate(DataLoader)",), (DATA,))


def test_a_finding_names_no_cause_without_idle_time() -> None:
    fetch = call("data", "enumerate(DataLoader)", 1, 0.3)
    loader = of(rank_trace(host_calls=(fetch,), gaps=(gap(0.3),)), "data.starved")
    assert loader is not None
    assert loader.idle_causes == ()
