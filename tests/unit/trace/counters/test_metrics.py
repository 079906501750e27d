"""From metrics to FLOPs and bytes, against hand calculations."""

import pytest

from perfkit.trace.counters.metrics import compute_launch_counts
from tests.fixtures.ncu_exports import BF16, FADD, FFMA, FMUL, HADD, HFMA, HMUL, L1, L2, READ, TIME, WRITE

SINGLE = {FADD: 10.0, FMUL: 20.0, FFMA: 100.0}
NO_TENSOR = {"sm__inst_executed_pipe_tensor.sum": 0.0}


def test_vector_flops_count_an_fma_twice_and_half_precision_in_pairs() -> None:
    metrics = SINGLE | {HADD: 1.0, HMUL: 2.0, HFMA: 3.0} | NO_TENSOR
    assert compute_launch_counts(metrics, "9.0").flops == 10 + 20 + 2 * 100 + 2 * 1 + 2 * 2 + 4 * 3


def test_double_precision_counts_with_the_rest() -> None:
    double = {f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum": 5.0 for name in ("dadd", "dmul", "dfma")}
    assert compute_launch_counts(SINGLE | double | NO_TENSOR, "9.0").flops == 230 + 5 + 5 + 10


def test_tensor_operations_are_added() -> None:
    assert compute_launch_counts(SINGLE | {BF16: 4096.0}, "9.0").flops == 230 + 4096


def test_tensor_metrics_that_contain_others_are_not_counted_twice() -> None:
    metrics = {
        "sm__ops_path_tensor_src_fp16.sum": 300.0,
        "sm__ops_path_tensor_src_fp16_dst_fp16.sum": 100.0,
        "sm__ops_path_tensor_src_fp16_dst_fp32.sum": 200.0,
        "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_on.sum": 1.0,
        "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum": 7.0,
        "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum": 200.0,
        "sm__ops_path_tensor_src_bf16_dst_fp32.max": 1e9,
    }
    assert compute_launch_counts(SINGLE | metrics, "9.0").flops == 230 + 300 + 8


def test_tensor_instructions_tell_operations_on_volta_only() -> None:
    metrics = SINGLE | {"sm__inst_executed_pipe_tensor.sum": 2.0}
    assert compute_launch_counts(metrics, "7.0").flops == 230 + 2 * 512
    assert compute_launch_counts(metrics, "8.0").flops is None
    assert compute_launch_counts(SINGLE | NO_TENSOR, "8.0").flops == 230


def test_flops_are_unknown_where_tensor_or_single_precision_was_not_collected() -> None:
    assert compute_launch_counts(SINGLE, "9.0").flops is None
    assert compute_launch_counts({FADD: 1.0, FMUL: 1.0, BF16: 1.0}, "9.0").flops is None


def test_a_roofline_sections_rates_become_counts() -> None:
    rates = {
        TIME: 2e-6,
        "smsp__cycles_elapsed.avg.per_second": 1e9,
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": 3.0,
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed": 5.0,
        "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2": 14.0,
        "smsp__inst_executed_pipe_tensor.sum.per_cycle_elapsed": 0.0,
        "dram__bytes.sum.per_second": 4e9,
    }
    found = compute_launch_counts(rates, "8.0")
    assert found.flops == pytest.approx((3 + 5 + 14) * 2000)  # 2 us at 1 GHz are 2,000 cycles
    assert found.dram_bytes == pytest.approx(8000)


def test_traffic_of_the_three_levels() -> None:
    found = compute_launch_counts({READ: 100.0, WRITE: 20.0, L2: 300.0, L1: 700.0, TIME: 1e-6}, "9.0")
    assert (found.dram_bytes, found.l2_bytes, found.l1_bytes, found.seconds) == (120, 300, 700, 1e-6)


def test_sectors_are_32_bytes_and_newer_names_are_known() -> None:
    found = compute_launch_counts(
        {"lts__t_sectors.sum": 10.0, "dram__bytes_op_read.sum": 1.0, "dram__bytes_op_write.sum": 2.0}, "12.0"
    )
    assert (found.l2_bytes, found.dram_bytes, found.l1_bytes) == (320, 3, None)


def test_half_of_the_traffic_is_not_the_traffic() -> None:
    assert compute_launch_counts({READ: 100.0}, "9.0").dram_bytes is None
