"""Versions of architectures, against what the GPUs of the catalogue can do."""

import pytest

from perfkit.devices.capability import capability_of
from perfkit.devices.catalogue import Entry, catalogue, named


@pytest.mark.parametrize("gpu", catalogue().devices, ids=lambda gpu: gpu.id)
def test_formats_come_with_their_architecture(gpu: Entry) -> None:
    """TF32 and bf16 since compute capability 8.0, fp8 since 8.9 (CUDA C++ Programming Guide)."""
    capability = capability_of(gpu)
    if gpu.vendor == "NVIDIA":
        assert "tf32" not in gpu.matrix_tflops or capability >= (8, 0)
        assert "fp8" not in gpu.matrix_tflops or capability >= (8, 9)
        assert "bf16" in gpu.matrix_tflops or capability < (8, 0)


@pytest.mark.parametrize(
    ("gpu", "capability"),
    [
        ("v100-32g", (7, 0)),
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
    assert capability_of(named(gpu)) == capability
