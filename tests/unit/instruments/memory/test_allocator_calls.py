"""What the caching allocator did between two moments."""

from typing import Any

import pytest
import torch

from perfkit.instruments.memory.allocator_calls import read_allocator_calls, subtract_allocator_calls

CUDA = torch.device("cuda", 0)


def test_a_cpu_counts_nothing() -> None:
    assert read_allocator_calls(torch.device("cpu")) == {}


@pytest.mark.parametrize(
    ("statistics", "counts"),
    [
        ({}, {}),  # CUDA is not initialized
        ({"num_alloc_retries": 2, "num_ooms": 1}, {"allocation_retries": 2, "caught_out_of_memory": 1}),
        (
            {"num_alloc_retries": 0, "num_ooms": 0, "num_device_alloc": 40, "num_device_free": 8, "segment": {}},
            {"allocation_retries": 0, "caught_out_of_memory": 0, "device_allocations": 40, "device_frees": 8},
        ),
    ],
)
def test_counters_of_the_allocator(
    monkeypatch: pytest.MonkeyPatch, statistics: dict[str, Any], counts: dict[str, int]
) -> None:
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", lambda device: statistics)
    assert read_allocator_calls(CUDA) == counts


def test_a_counter_that_was_reset_in_between_is_not_known() -> None:
    before, after = {"allocation_retries": 5, "device_frees": 3}, {"allocation_retries": 1, "device_frees": 9}
    assert subtract_allocator_calls(before, after) == {"device_frees": 6.0}
    assert subtract_allocator_calls({}, after) == {}
