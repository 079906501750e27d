import pytest

from benchmarks.gpu.ceilings import compare_rates, expected_rate
from tests.fixtures.figures import list_figures


def test_a_rate_beside_the_expected_one_and_the_datasheet() -> None:
    found = compare_rates({("matrix", "bf16"): (780e12, None), ("memory", None): (4.2e12, 0.01)}, "NVIDIA H200")
    product, copy = found.figures["ceilings"]
    assert (product["expected"], product["datasheet"]) == (788e12, 989.4e12)
    assert product["of_expected"] == pytest.approx(780 / 788)
    assert copy["of_datasheet"] == pytest.approx(4.2 / 4.8)
    assert found.wrong == []


def test_what_is_far_off_is_wrong() -> None:
    found = compare_rates({("matrix", "bf16"): (394e12, None), ("memory", None): (9.6e12, None)}, "NVIDIA H200")
    assert [(line.split()[0], *list_figures(line)) for line in found.wrong] == [
        ("matrix", "0.50"),
        ("memory", "2.23"),
        ("memory", "2.00"),
    ]


def test_of_an_unknown_device_nothing_is_expected() -> None:
    found = compare_rates({("matrix", "bf16"): (1e9, None)}, "cpu")
    assert found.figures["catalogue"] is None
    assert found.figures["ceilings"][0]["of_datasheet"] is None
    assert found.wrong == []


def test_a_share_of_the_datasheet_is_expected_of_products_alone() -> None:
    assert expected_rate("h100-sxm", "matrix", "bf16", 1000.0)[0] == 800.0
    assert expected_rate("h100-sxm", "matrix", "fp16", 1000.0) == (None, "")
    assert expected_rate("h100-sxm", "memory", None, 1000.0) == (None, "")
