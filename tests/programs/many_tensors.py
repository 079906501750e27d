"""Workloads for `perfkit tune`: many small layers, whose optimizer updates one tensor after another, or all at once."""

import torch
from torch import nn

from perfkit import Workload

_LAYERS, _WIDTH, _SAMPLES = 300, 16, 8


class _Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(_WIDTH, _WIDTH) for _ in range(_LAYERS))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.stack([layer(inputs) for layer in self.layers])


def build() -> Workload:
    """The optimizer updates each tensor by itself."""
    return Workload(
        name="many tensors",
        unit="samples",
        units_per_batch=_SAMPLES,
        build_model=_Layers,
        build_optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3),
        make_batch=_make_batch,
        loss=_compute_loss,
    )


def build_clean() -> Workload:
    """The optimizer updates all tensors in one op."""
    return Workload(
        name="many tensors at once",
        unit="samples",
        units_per_batch=_SAMPLES,
        build_model=_Layers,
        build_optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True),
        make_batch=_make_batch,
        loss=_compute_loss,
    )


def _make_batch(generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"inputs": torch.randn(_SAMPLES, _WIDTH, generator=generator)}


def _compute_loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    return model(batch["inputs"]).square().mean()  # type: ignore[no-any-return]
