"""Which ceiling products are held against."""

import pytest

from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.devices.ceilings.peak import find_matrix_ceiling, get_utilization_kind


def ceiling(
    level: CeilingLevel, dtype: str, value: float, kind: CeilingKind = CeilingKind.DATASHEET, threads: int | None = None
) -> Ceiling:
    return Ceiling(level=level, dtype=dtype, value=value, unit="FLOP/s", kind=kind, source="a test", threads=threads)


def known(device: str, *ceilings: Ceiling) -> DeviceCeilings:
    return DeviceCeilings(device=device, device_name="a device", fingerprint="", ceilings=ceilings)


GPU = known(
    "cuda",
    ceiling(CeilingLevel.MATRIX, "bf16", 1000),
    ceiling(CeilingLevel.MATRIX, "bf16", 800, CeilingKind.MEASURED),
    ceiling(CeilingLevel.MATRIX, "tf32", 500),
    ceiling(CeilingLevel.VECTOR, "fp32", 60),
)
CPU = known(
    "cpu",
    ceiling(CeilingLevel.MATRIX, "fp32", 10, CeilingKind.MEASURED, threads=1),
    ceiling(CeilingLevel.MATRIX, "fp32", 40, CeilingKind.MEASURED, threads=4),
)


def value(
    device: DeviceCeilings, dtype: str, *, threads: int | None = None, kind: CeilingKind | None = None
) -> float | None:
    found = find_matrix_ceiling(device, dtype, threads=threads, kind=kind)
    return None if found is None else found.value


def test_matrix_units_where_they_take_the_dtype() -> None:
    assert value(GPU, "bf16", kind=CeilingKind.DATASHEET) == 1000
    assert value(GPU, "bf16", kind=CeilingKind.MEASURED) == 800
    assert value(GPU, "bf16") == 800
    assert value(GPU, "tf32") == 500


def test_fp32_on_a_gpu_runs_on_its_vector_units() -> None:
    assert value(GPU, "fp32") == 60


def test_fp32_on_a_gpu_whose_matrix_units_take_it() -> None:
    device = known("cuda", ceiling(CeilingLevel.MATRIX, "fp32", 160), ceiling(CeilingLevel.VECTOR, "fp32", 80))
    assert value(device, "fp32") == 160


def test_where_tf32_is_not_known_fp32_is_no_answer() -> None:
    only_fp32 = known("cuda", ceiling(CeilingLevel.VECTOR, "fp32", 60))
    assert value(only_fp32, "tf32") is None
    assert value(only_fp32, "3xtf32") is None


def test_three_tf32_products_for_one_reach_a_third_of_the_peak() -> None:
    found = find_matrix_ceiling(GPU, "3xtf32", threads=None)
    assert (found.value, found.level, found.dtype) == (500 / 3, CeilingLevel.MATRIX, "3xtf32")
    assert found.source.startswith("a third of the TF32 peak")
    assert found.source.endswith("; a test")


def test_a_kind_that_is_not_known_is_no_other() -> None:
    assert value(GPU, "fp32", kind=CeilingKind.MEASURED) is None
    assert value(GPU, "fp8") is None


def test_threads_count_on_a_cpu_alone() -> None:
    assert [value(CPU, "fp32", threads=threads) for threads in (1, 4, 2)] == [10, 40, None]
    assert value(GPU, "bf16", threads=4, kind=CeilingKind.DATASHEET) == 1000


@pytest.mark.parametrize(
    ("device", "kind"), [("cuda", CeilingKind.DATASHEET), ("cpu", CeilingKind.MEASURED), ("", CeilingKind.MEASURED)]
)
def test_what_utilization_refers_to(device: str, kind: CeilingKind) -> None:
    assert get_utilization_kind(device) == kind
