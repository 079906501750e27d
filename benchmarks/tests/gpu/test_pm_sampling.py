import sys
from types import ModuleType

import pytest

from benchmarks.gpu.pm_sampling import ACTIVE, COPIED_BYTES, MEMORY, MODULE, compare_samples, find_sampler, memory_peak
from benchmarks.gpu.rows import Skipped

PEAK = 4.8e12
COPY_S = 2 * COPIED_BYTES / (0.8 * PEAK)  # 80 % of the peak


def frame(active: float, memory: float) -> dict[str, list[float]]:
    return {ACTIVE: [active] * 3, MEMORY: [memory] * 3}


def test_the_peak_is_the_datasheets() -> None:
    assert memory_peak("NVIDIA H200") == 4.8e12


def test_samples_that_agree_with_the_model() -> None:
    found = compare_samples((frame(98, 30), 1e-3), (frame(90, 82), COPY_S), PEAK)
    assert found.figures["memory_share_modeled"] == pytest.approx(0.8)
    assert found.figures["memory_share_sampled"] == pytest.approx(0.82)
    assert found.wrong == []


@pytest.mark.parametrize(("active", "memory"), [(20, 80), (98, 40), (98, 0)])
def test_idle_units_and_bytes_that_differ_are_wrong(active: float, memory: float) -> None:
    assert len(compare_samples((frame(active, 30), 1e-3), (frame(90, memory), COPY_S), PEAK).wrong) == 1


def test_a_session_without_samples_is_skipped() -> None:
    with pytest.raises(Skipped):
        compare_samples((None, 1e-3), (frame(90, 80), COPY_S), PEAK)


def test_a_torch_without_the_sampler_is_skipped_and_one_with_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    # torch 2.14 has it, for a package that is not installed here.
    with pytest.raises(Skipped, match=r"has no|cannot be imported"):
        find_sampler()
    module = ModuleType(MODULE)
    module.__spec__ = sys.__spec__
    module.PmSampler = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, MODULE.rpartition(".")[0], ModuleType("parent"))
    monkeypatch.setitem(sys.modules, MODULE, module)
    assert find_sampler() is object
