"""Units bear the names that their vendor gives them."""

import pytest

from perfkit.devices.catalog.unit_names import get_unit_name


@pytest.mark.parametrize(
    ("device", "matrix", "vector"),
    [
        ("NVIDIA H100 80GB HBM3", "Tensor Core", "CUDA core"),
        ("Tesla V100-SXM2-16GB", "Tensor Core", "CUDA core"),
        ("AMD Instinct MI300X", "MFMA", "VALU"),
        ("AMD Radeon RX 7900 XTX", "matrix", "vector"),
        ("AMD EPYC 9654", "matrix", "vector"),
        ("", "matrix", "vector"),
    ],
)
def test_units_are_called_as_their_vendor_calls_them(device: str, matrix: str, vector: str) -> None:
    assert (get_unit_name("matrix", device), get_unit_name("vector", device)) == (matrix, vector)
    assert get_unit_name("memory", device) == "memory"
