"""Peaks by dtype, dense and sparse, and mistakes made of them."""

import pytest

from perfkit.core.errors import UsageError
from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.mfu.mistakes import Setting, list_peak_mistakes, list_work_mistakes
from perfkit.mfu.peak_rates import list_other_forms, list_peaks, select_peak


@pytest.mark.parametrize(
    ("gpu", "dtype", "dense", "sparse"),
    [
        ("h100-sxm", "bf16", 989.4e12, 1978.8e12),
        ("h100-sxm", "fp32", 66.9e12, None),
        ("a100-sxm-80gb", "bf16", 312e12, 624e12),
        ("v100-sxm2", "fp16", 125e12, None),
        ("mi300x", "fp8", 2614.9e12, 5229.8e12),
        ("mi250x", "bf16", 191.5e12, None),
        ("b200", "fp4", 9000e12, None),
    ],
)
def test_peaks(gpu: str, dtype: str, dense: float, sparse: float | None) -> None:
    peak = select_peak(list_peaks(resolve_entry(gpu)), dtype, gpu)
    assert (peak.dense, peak.sparse) == (pytest.approx(dense), sparse if sparse is None else pytest.approx(sparse))


def test_a_dtype_that_a_gpu_does_not_have() -> None:
    with pytest.raises(UsageError):
        select_peak(list_peaks(resolve_entry("v100-sxm2")), "bf16", "v100-sxm2")


def test_other_forms() -> None:
    assert [entry.id for entry in list_other_forms(resolve_entry("h100-sxm"))] == ["h100-pcie", "h100-nvl"]


def setting(gpu: str, dtype: str = "bf16", gpus: int = 1, accumulation: int = 1) -> Setting:
    entry = resolve_entry(gpu)
    peaks = list_peaks(entry)
    return Setting(gpus, 8, accumulation, entry, select_peak(peaks, dtype, gpu), peaks)


def test_each_wrong_peak_is_listed_once() -> None:
    factors = {mistake.id: mistake.factor for mistake in list_peak_mistakes(setting("h100-sxm"))}
    assert factors["peak.sparse"] == 0.5
    assert factors["peak.a100-sxm-80gb"] == pytest.approx(989.4 / 312)
    assert factors["peak.h100-pcie"] == pytest.approx(989.4 / 756)
    assert "peak.fp16" not in factors  # the same rate
    assert len({round(factor, 3) for factor in factors.values()}) == len(factors)


def test_tokens_and_gpus_that_do_not_belong_together() -> None:
    alone = {mistake.id: mistake.factor for mistake in list_work_mistakes(setting("h100-sxm"))}
    assert alone == {
        "forward_only": pytest.approx(1 / 3),
        "multiply_adds": 0.5,
        "node.one_peak": 8.0,
        "node.all_peaks": 1 / 8,
    }
    several = {
        mistake.id: mistake.factor for mistake in list_work_mistakes(setting("h100-sxm", gpus=16, accumulation=4))
    }
    assert several["gpus.one_peak"] == 16
    assert several["gpus.all_peaks"] == 1 / 16
    assert (several["accumulation.twice"], several["accumulation.once"]) == (4, 0.25)
