"""What the caching allocator did in timed steps."""

from pathlib import Path

import pytest

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from tests.fixtures.suites import record, write_suite


def findings(folder: Path, **variants: dict[str, float]) -> list[tuple[str, str, dict[str, float]]]:
    runs = {name: [record(facts={"world_size": 1.0, **facts})] for name, facts in variants.items()}
    found = analyze_suite(write_suite(folder, runs)).findings
    return [(each.id, each.variant, each.figures) for each in found if each.id.startswith("memory.")]


def counts(retries: float, failed: float = 0, allocated: float = 0, freed: float = 0) -> dict[str, float]:
    return {
        "allocation_retries": retries,
        "caught_out_of_memory": failed,
        "device_allocations": allocated,
        "device_frees": freed,
    }


def test_retries_are_a_warning_of_the_first_variant(tmp_path: Path) -> None:
    assert findings(tmp_path, baseline=counts(0), amp=counts(7, 1, 30, 28), ckpt=counts(2)) == [
        (
            "memory.allocation_retries",
            "amp",
            {"retries": 7, "failed": 1, "device_allocations": 30, "device_frees": 28},
        )
    ]


def test_memory_from_the_driver_without_a_retry_is_a_note(tmp_path: Path) -> None:
    assert findings(tmp_path, baseline=counts(0, allocated=40, freed=20)) == [
        ("memory.device_allocations", "baseline", {"device_allocations": 40, "device_frees": 20})
    ]


@pytest.mark.parametrize("facts", [{}, counts(0), counts(0, allocated=3), {"allocation_retries": 0.0}])
def test_an_allocator_that_serves_all_from_its_cache_is_not_told(tmp_path: Path, facts: dict[str, float]) -> None:
    assert findings(tmp_path, baseline=facts) == []
