"""The GPUs that a list names."""

import pytest

from perfkit.core.errors import UsageError
from perfkit.plan.rental.gpu_names import resolve_gpus


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("l40s", ["l40s"]),
        ("h100-80g", ["h100-sxm"]),
        ("l40s, h100-80g,L40S", ["l40s", "h100-sxm"]),
        ("h100", ["h100-sxm", "h100-pcie", "h100-nvl"]),
        ("rtx-3080", ["rtx-3080"]),
        ("v100-32g,rtx-4090", ["v100-sxm2", "rtx-4090"]),
    ],
)
def test_names(text: str, ids: list[str]) -> None:
    found = resolve_gpus(text)
    assert [entry.id for entry in found] == ids
    assert all(entry.memory_gb for entry in found)


def test_all_are_those_with_known_memory() -> None:
    found = {entry.id for entry in resolve_gpus("all")}
    assert {"h100-sxm", "l40s", "mi300x"} < found
    assert "v100-sxm2" not in found


@pytest.mark.parametrize("text", ["h100-81g", "l40s,,t4", "l40ss"])
def test_names_that_are_wrong(text: str) -> None:
    with pytest.raises(UsageError):
        resolve_gpus(text)
