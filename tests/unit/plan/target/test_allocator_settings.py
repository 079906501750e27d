"""Settings of torch's allocator, as its documentation writes them."""

import pytest

from perfkit.plan.target.allocator_settings import parse_allocator_settings
from perfkit.plan.target.target import parse_target


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({}, {}),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, {"expandable_segments": "True"}),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128, roundup_power2_divisions:[256:1,512:2,>:8]"},
            {"max_split_size_mb": "128", "roundup_power2_divisions": "[256:1,512:2,>:8]"},
        ),
        (
            {"PYTORCH_ALLOC_CONF": "backend:native", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            {"backend": "native"},
        ),
    ],
)
def test_settings_by_name(environment: dict[str, str], settings: dict[str, str]) -> None:
    assert parse_allocator_settings(environment) == settings


def test_a_target_is_planned_with_what_the_environment_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,garbage_collection_threshold:0.8")
    target = parse_target("h100-80g", None)
    assert target.expandable_segments
    assert target.other_settings == ("garbage_collection_threshold",)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False")
    assert not parse_target("h100-80g", None).expandable_segments
