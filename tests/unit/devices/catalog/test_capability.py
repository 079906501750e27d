"""Versions of architectures, against what the GPUs of the catalogue can do."""

import pytest

from perfkit.devices.catalog.capability import Fp8Format, get_capability, get_fp8_format
from perfkit.devices.catalog.catalog import load_catalog, resolve_entry


def test_formats_come_with_their_architecture() -> None:
    """TF32 and bf16 since compute capability 8.0, fp8 since 8.9 (CUDA C++ Programming Guide)."""
    for gpu in load_catalog().devices:
        capability = get_capability(gpu)
        if gpu.vendor == "NVIDIA":
            assert "tf32" not in gpu.matrix_tflops or capability >= (8, 0)
            assert "fp8" not in gpu.matrix_tflops or capability >= (8, 9)
            assert "bf16" in gpu.matrix_tflops or capability < (8, 0)


@pytest.mark.parametrize(
    ("gpu", "capability"),
    [
        ("v100-32g", (7, 0)),
        ("quadro-gp100", (6, 0)),
        ("quadro-gv100", (7, 0)),
        ("rtx-2070-super", (7, 5)),
        ("t4", (7, 5)),
        ("a100-40g", (8, 0)),
        ("a10g", (8, 6)),
        ("rtx-a6000", (8, 6)),
        ("rtx-4090", (8, 9)),
        ("rtx-6000-ada", (8, 9)),
        ("rtx-4000-sff-ada", (8, 9)),
        ("l4", (8, 9)),
        ("h20", (9, 0)),
        ("gh200-96g", (9, 0)),
        ("gb200", (10, 0)),
        ("b300", (10, 3)),
        ("rtx-5090", (12, 0)),
        ("gb10", (12, 1)),
        ("mi250x", (9, 0)),
        ("mi300x", (9, 4)),
        ("mi355x", (9, 5)),
    ],
)
def test_versions_as_their_vendors_print_them(gpu: str, capability: tuple[int, int]) -> None:
    assert get_capability(resolve_entry(gpu)) == capability


def test_a_gpu_with_a_peak_in_fp8_has_units_for_it() -> None:
    for gpu in load_catalog().devices:
        found = get_fp8_format(get_capability(gpu), amd=gpu.vendor == "AMD")
        assert (found is not None) == ("fp8" in gpu.matrix_tflops)


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("mi100", None),
        ("mi250x", None),
        ("mi300x", Fp8Format.FNUZ),
        ("mi325x", Fp8Format.FNUZ),
        ("mi355x", Fp8Format.OCP),
        ("rx-7900-xtx", None),
        ("h100-sxm", Fp8Format.OCP),
        ("l4", Fp8Format.OCP),
        ("a100-40g", None),
    ],
)
def test_amd_multiplies_its_own_fp8_before_mi350(gpu: str, expected: Fp8Format | None) -> None:
    entry = resolve_entry(gpu)
    assert get_fp8_format(get_capability(entry), amd=entry.vendor == "AMD") == expected
