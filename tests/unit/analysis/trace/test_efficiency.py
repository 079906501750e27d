import pytest

from perfkit.analysis.trace.efficiency import Peak, peak, peak_of_mix, utilisation
from perfkit.analysis.trace.roofs import roofs_of
from perfkit.cost.call import Unit
from perfkit.devices.ceiling import Ceiling, Kind, Level
from perfkit.record import Measurement, Unknown
from tests.fixtures.suites import CEILINGS, ENVIRONMENT, changed, counted

GPU = changed(ENVIRONMENT, device="cuda", device_name="NVIDIA Test", threads=8)


def gpu_ceilings(*ceilings: tuple[Level, str, float, Kind]):
    found = tuple(
        Ceiling(level=level, dtype=dtype, value=value, unit="FLOP/s", kind=kind, source="test")
        for level, dtype, value, kind in ceilings
    )
    return changed(CEILINGS, device="cuda", device_name="NVIDIA Test", ceilings=found)


def test_mfu_on_a_cpu_is_over_the_measured_ceiling_of_all_ranks() -> None:
    limit = peak(roofs_of(CEILINGS, ENVIRONMENT), "fp32", world_size=2)
    assert isinstance(limit, Peak)
    assert limit.flops_per_s == 2e11
    result = utilisation(counted(4e9), 0.1, limit)
    assert isinstance(result, Measurement)
    assert result.value == pytest.approx(0.2)


def test_mfu_on_a_gpu_is_over_the_datasheet_even_where_a_measured_peak_is_known() -> None:
    ceilings = gpu_ceilings(
        (Level.MATRIX, "bf16", 989e12, Kind.DATASHEET), (Level.MATRIX, "bf16", 788e12, Kind.MEASURED)
    )
    limit = peak(roofs_of(ceilings, GPU), "bf16", 1)
    assert isinstance(limit, Peak)
    assert limit.flops_per_s == 989e12


def test_fp32_products_run_in_tf32_only_where_the_precision_allows_it() -> None:
    ceilings = gpu_ceilings(
        (Level.MATRIX, "tf32", 495e12, Kind.DATASHEET), (Level.VECTOR, "fp32", 67e12, Kind.DATASHEET)
    )
    exact = peak(roofs_of(ceilings, changed(GPU, matmul_precision="highest")), "fp32", 1)
    fast = peak(roofs_of(ceilings, changed(GPU, matmul_precision="high")), "fp32", 1)
    assert isinstance(exact, Peak)
    assert isinstance(fast, Peak)
    assert (exact.flops_per_s, fast.flops_per_s) == (67e12, 495e12)


A100 = gpu_ceilings((Level.MATRIX, "tf32", 156e12, Kind.DATASHEET), (Level.VECTOR, "fp32", 19.5e12, Kind.DATASHEET))


def test_a_resnet_in_fp32_is_held_against_the_mix_of_tf32_and_fp32() -> None:
    # 780 TFLOP of convolutions take 5 s, 19.5 of the last layer 1 s.
    flops = {(Unit.MATRIX, "tf32"): 780e12, (Unit.MATRIX, "fp32"): 19.5e12}
    limit = peak_of_mix(roofs_of(A100, GPU), flops, world_size=2)
    assert isinstance(limit, Peak)
    assert limit.flops_per_s == pytest.approx(2 * 799.5e12 / 6)
    assert limit.text == (
        "the mix of 97.6 % at the tf32 Tensor Core peak 156 TFLOP/s (datasheet: test), "
        "2.4 % at the fp32 CUDA core peak 19.5 TFLOP/s (datasheet: test) x 2 ranks"
    )
    whole = utilisation(counted(799.5e12), 6.0, peak_of_mix(roofs_of(A100, GPU), flops, 1))
    assert isinstance(whole, Measurement)
    assert whole.value == pytest.approx(1)  # against the vector peak alone it would be 6.8


def test_parts_with_one_ceiling_are_told_as_one() -> None:
    flops = {(Unit.MATRIX, "fp32"): 1.0, (Unit.VECTOR, "fp32"): 3.0}
    limit = peak_of_mix(roofs_of(A100, GPU), flops, 1)
    assert limit == Peak(19.5e12, "fp32 CUDA core peak 19.5 TFLOP/s (datasheet: test)")


def test_a_part_of_the_mix_without_a_peak_is_named() -> None:
    flops = {(Unit.MATRIX, "tf32"): 1.0, (Unit.MATRIX, "fp64"): 1.0}
    limit = peak_of_mix(roofs_of(A100, GPU), flops, 1)
    assert isinstance(limit, Unknown)
    assert limit.reason.startswith("no datasheet fp64 Tensor Core peak: ")


def test_an_unknown_device_gets_no_percentage() -> None:
    for roofs in (
        roofs_of(gpu_ceilings(), GPU),
        roofs_of(CEILINGS, GPU),
        roofs_of(None, GPU),
        roofs_of(CEILINGS, None),
    ):
        limit = peak(roofs, "bf16", 1)
        assert isinstance(limit, Unknown)
        assert isinstance(utilisation(counted(1e9), 0.1, limit), Unknown)


@pytest.mark.parametrize(("threads", "told"), [(1, "with 1 thread;"), (6, "with 6 threads;")])
def test_without_a_ceiling_of_its_threads_a_cpu_is_to_be_calibrated(threads: int, told: str) -> None:
    limit = peak(roofs_of(CEILINGS, changed(ENVIRONMENT, threads=threads)), "fp32", 1)
    assert isinstance(limit, Unknown)
    assert told in limit.reason
    assert limit.reason.endswith("run `perfkit calibrate`")


def test_unknown_flops_or_step_time_keep_their_reason() -> None:
    limit = peak(roofs_of(CEILINGS, ENVIRONMENT), "fp32", 1)
    assert utilisation(Unknown(reason="not counted"), 0.1, limit) == Unknown(reason="not counted")
    assert isinstance(utilisation(counted(1e9), None, limit), Unknown)
