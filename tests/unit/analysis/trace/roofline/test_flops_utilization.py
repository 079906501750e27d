import pytest

from perfkit.analysis.trace.roofline.flops_utilization import (
    PeakRate,
    Utilization,
    compute_utilization,
    find_peak,
    find_peak_of_mix,
)
from perfkit.analysis.trace.roofline.roofs import build_roofs
from perfkit.core.record.quantity import Measurement, Unknown, get_value
from perfkit.core.record.rank_record import Flops
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel
from perfkit.devices.ceilings.exceeded_ceilings import mark_refuted
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import CEILINGS, ENVIRONMENT, changed, counted

GPU = changed(ENVIRONMENT, device="cuda", device_name="NVIDIA Test", threads=8)


def flops(model: float, hardware: float | None = None) -> Flops:
    return Flops(model=counted(model), hardware=counted(model if hardware is None else hardware))


def shares(found: Utilization) -> tuple[float | None, float | None]:
    return get_value(found.mfu), get_value(found.hfu)


def gpu_ceilings(*ceilings: tuple[CeilingLevel, str, float, CeilingKind]):
    found = tuple(
        Ceiling(level=level, dtype=dtype, value=value, unit="FLOP/s", kind=kind, source="test")
        for level, dtype, value, kind in ceilings
    )
    return changed(CEILINGS, device="cuda", device_name="NVIDIA Test", ceilings=found)


def test_mfu_on_a_cpu_is_over_the_measured_ceiling_of_all_ranks() -> None:
    limit = find_peak(build_roofs(CEILINGS, ENVIRONMENT), "fp32", world_size=2)
    assert isinstance(limit, PeakRate)
    assert limit.flops_per_s == 2e11
    result = compute_utilization(flops(2e9, 4e9), 0.1, limit)
    assert shares(result) == (pytest.approx(0.1), pytest.approx(0.2))


def test_mfu_on_a_gpu_is_over_the_datasheet_even_where_a_measured_peak_is_known() -> None:
    ceilings = gpu_ceilings(
        (CeilingLevel.MATRIX, "bf16", 989e12, CeilingKind.DATASHEET),
        (CeilingLevel.MATRIX, "bf16", 788e12, CeilingKind.MEASURED),
    )
    limit = find_peak(build_roofs(ceilings, GPU), "bf16", 1)
    assert isinstance(limit, PeakRate)
    assert limit.flops_per_s == 989e12


def test_fp32_products_run_in_tf32_only_where_the_precision_allows_it() -> None:
    ceilings = gpu_ceilings(
        (CeilingLevel.MATRIX, "tf32", 495e12, CeilingKind.DATASHEET),
        (CeilingLevel.VECTOR, "fp32", 67e12, CeilingKind.DATASHEET),
    )
    exact = find_peak(build_roofs(ceilings, changed(GPU, matmul_precision="highest")), "fp32", 1)
    fast = find_peak(build_roofs(ceilings, changed(GPU, matmul_precision="high")), "fp32", 1)
    assert isinstance(exact, PeakRate)
    assert isinstance(fast, PeakRate)
    assert (exact.flops_per_s, fast.flops_per_s) == (67e12, 495e12)


A100 = gpu_ceilings(
    (CeilingLevel.MATRIX, "tf32", 156e12, CeilingKind.DATASHEET),
    (CeilingLevel.VECTOR, "fp32", 19.5e12, CeilingKind.DATASHEET),
)


def test_a_resnet_in_fp32_is_held_against_the_mix_of_tf32_and_fp32() -> None:
    # 780 TFLOP of convolutions take 5 s, 19.5 of the last layer 1 s.
    computed = {(ComputeUnit.MATRIX, "tf32"): 780e12, (ComputeUnit.MATRIX, "fp32"): 19.5e12}
    limit = find_peak_of_mix(build_roofs(A100, GPU), computed, world_size=2)
    assert isinstance(limit, PeakRate)
    assert limit.flops_per_s == pytest.approx(2 * 799.5e12 / 6)
    assert list_figures(limit.text) == ["97.6 %", "156 TFLOP/s", "2.4 %", "19.5 TFLOP/s", "2"]
    assert limit.text.index("tf32") < limit.text.index("fp32")
    used = compute_utilization(flops(799.5e12), 12.0, limit)
    assert isinstance(used.mfu, Measurement)
    assert isinstance(used.hfu, Measurement)
    assert used.mfu.of == used.hfu.of == "2 x 133 TFLOP/s (98 % tf32, 2 % fp32)"
    half = compute_utilization(flops(799.5e12), 12.0, find_peak_of_mix(build_roofs(A100, GPU), computed, 1))
    assert shares(half) == (pytest.approx(0.5), pytest.approx(0.5))  # against the vector peak alone it would be 3.4


def test_parts_with_one_ceiling_are_told_as_one() -> None:
    computed = {(ComputeUnit.MATRIX, "fp32"): 1.0, (ComputeUnit.VECTOR, "fp32"): 3.0}
    limit = find_peak_of_mix(build_roofs(A100, GPU), computed, 1)
    assert isinstance(limit, PeakRate)
    assert (limit.flops_per_s, list_figures(limit.text)) == (19.5e12, ["19.5 TFLOP/s"])


def test_a_part_of_the_mix_without_a_peak_is_named() -> None:
    computed = {(ComputeUnit.MATRIX, "tf32"): 1.0, (ComputeUnit.MATRIX, "fp64"): 1.0}
    limit = find_peak_of_mix(build_roofs(A100, GPU), computed, 1)
    assert isinstance(limit, Unknown)
    assert limit.reason.startswith("no datasheet fp64 ")


def test_an_unknown_device_gets_no_percentage() -> None:
    for roofs in (
        build_roofs(gpu_ceilings(), GPU),
        build_roofs(CEILINGS, GPU),
        build_roofs(None, GPU),
        build_roofs(CEILINGS, None),
    ):
        limit = find_peak(roofs, "bf16", 1)
        assert isinstance(limit, Unknown)
        assert compute_utilization(flops(1e9), 0.1, limit) == (limit, limit, ())


@pytest.mark.parametrize(("threads", "told"), [(1, "with 1 thread;"), (6, "with 6 threads;")])
def test_without_a_ceiling_of_its_threads_a_cpu_is_to_be_calibrated(threads: int, told: str) -> None:
    limit = find_peak(build_roofs(CEILINGS, changed(ENVIRONMENT, threads=threads)), "fp32", 1)
    assert isinstance(limit, Unknown)
    assert told in limit.reason
    assert limit.reason.endswith("run `perfkit calibrate`")


def test_unknown_flops_or_step_time_keep_their_reason() -> None:
    limit = find_peak(build_roofs(CEILINGS, ENVIRONMENT), "fp32", 1)
    unknown = Unknown(reason="not counted")
    assert compute_utilization(Flops(model=unknown, hardware=unknown), 0.1, limit) == (unknown, unknown, ())
    assert isinstance(compute_utilization(flops(1e9), None, limit).mfu, Unknown)


def test_a_step_that_is_faster_than_the_measured_ceiling_has_no_utilization_and_refutes_it() -> None:
    limit = find_peak(build_roofs(CEILINGS, ENVIRONMENT), "fp32", 1)
    assert isinstance(limit, PeakRate)
    exactly = compute_utilization(flops(0.5e10, 1e10), 0.1, limit)
    assert shares(exactly) == (0.5, 1.0)
    beyond = compute_utilization(
        flops(0.5e10, 1e10 + 1e4), 0.1, limit
    )  # by a millionth: what is exceeded is no ceiling
    assert isinstance(beyond.hfu, Unknown)
    assert "100 GFLOP/s" in beyond.hfu.reason
    assert beyond.hfu.reason.endswith("`perfkit calibrate --device cpu --threads 2 --force`")
    assert beyond.mfu == beyond.hfu
    assert beyond.refuted == limit.ceilings


def test_without_the_flops_that_ran_those_of_the_model_refute() -> None:
    limit = find_peak(build_roofs(CEILINGS, ENVIRONMENT), "fp32", 1)
    unknown = Unknown(reason="not counted")
    found = compute_utilization(Flops(model=counted(2e10), hardware=unknown), 0.1, limit)
    assert isinstance(found.mfu, Unknown)
    assert found.hfu == unknown
    assert found.refuted


def test_more_than_a_datasheet_says_that_the_count_or_the_clock_is_wrong() -> None:
    limit = find_peak(build_roofs(A100, GPU), "tf32", 1)
    found = compute_utilization(flops(200e12), 1.0, limit)
    assert isinstance(found.mfu, Unknown)
    assert "156 TFLOP/s" in found.mfu.reason
    assert found.refuted == ()


def test_flops_that_only_a_convention_counts_refute_nothing() -> None:
    limit = find_peak(build_roofs(CEILINGS, ENVIRONMENT), "fp32", 1)
    found = compute_utilization(flops(2e10, 0.8e10), 0.1, limit)
    assert isinstance(found.mfu, Unknown)
    assert "by convention" in found.mfu.reason
    assert shares(found) == (None, 0.8)
    assert found.refuted == ()


def test_skipped_pairs_count_in_both_utilizations_and_refute_nothing() -> None:
    limit = find_peak(build_roofs(CEILINGS, ENVIRONMENT), "fp32", 1)
    causal = Flops(model=counted(0.6e10), hardware=counted(0.4e10), masked=0.3e10)
    assert shares(compute_utilization(causal, 0.1, limit)) == (pytest.approx(0.6), pytest.approx(0.7))
    beyond = compute_utilization(Flops(model=counted(0.6e10), hardware=counted(0.9e10), masked=0.3e10), 0.1, limit)
    assert (shares(beyond), beyond.refuted) == ((pytest.approx(0.6), None), ())


def test_a_refuted_ceiling_is_no_peak_for_anyone() -> None:
    limit = find_peak(build_roofs(CEILINGS, ENVIRONMENT), "fp32", 1)
    assert isinstance(limit, PeakRate)
    again = find_peak(build_roofs(mark_refuted(CEILINGS, limit.ceilings), ENVIRONMENT), "fp32", 1)
    assert isinstance(again, Unknown)
    assert "100 GFLOP/s" in again.reason
    assert again.reason.endswith("`perfkit calibrate --device cpu --threads 2 --force`")
