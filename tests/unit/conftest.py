"""What tests begin with: torch's settings of fp32, those of a GPU that is not there, nothing that others left."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def fp32_switches() -> Iterator[None]:
    """The test may set what it likes for matrix products."""
    import torch  # only where a test asks for it

    yield
    torch.set_float32_matmul_precision("highest")  # writes through, so that the old getters agree again
    for backend in (torch.backends, torch.backends.cuda.matmul, torch.backends.mkldnn.matmul):
        backend.fp32_precision = "none"


@pytest.fixture
def fp32_gpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An A100 with torch's defaults, which the test may change; the old getter raises whatever they are."""
    import torch

    found: dict[str, Any] = {"matmul": "none", "conv": "tf32", "rnn": "tf32", "capability": (8, 0)}

    def getter(backend: str, op: str) -> str:
        assert backend == "cuda"
        return str(found[op])

    def raises() -> str:
        raise RuntimeError("you have used mix of the legacy and new APIs to set the matmul precision")

    monkeypatch.setattr(torch._C, "_get_fp32_precision_getter", getter)
    monkeypatch.setattr(torch._C, "_get_float32_matmul_precision", raises)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: found["capability"])
    return found


@pytest.fixture
def nothing_left() -> None:
    """A test of what is alive and compiled begins without what other tests left in cycles and caches."""
    import torch

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    gc.collect()
    # What is still alive then is held by C++, which nobody can tell from a model of the test: frozen objects are not
    # among those of `gc.get_objects`. They stay so: the next collection walks only what the next test made.
    gc.freeze()
