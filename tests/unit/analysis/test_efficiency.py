import pytest

from perfkit.analysis.efficiency import Peak, peak, utilisation
from perfkit.analysis.roofs import roofs_of
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


def test_unknown_flops_or_step_time_keep_their_reason() -> None:
    limit = peak(roofs_of(CEILINGS, ENVIRONMENT), "fp32", 1)
    assert utilisation(Unknown(reason="not counted"), 0.1, limit) == Unknown(reason="not counted")
    assert isinstance(utilisation(counted(1e9), None, limit), Unknown)
