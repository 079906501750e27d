"""A vision transformer on `nn.MultiheadAttention`, as torchvision builds it.

`vit` is a workload for `perfkit plan -w benchmarks/published/vision.py:vit:KEY=VALUE`.
"""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit import Workload
from perfkit.workloads.workload import Batch

_IMAGE, _PATCH = 224, 16


class Layer(nn.Module):
    """An encoder layer with the norms first: (batch, patches, width) -> the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm1(x)
        x = self.attention(normed, normed, normed, need_weights=False)[0] + x
        return self.mlp(self.norm2(x)) + x  # type: ignore[no-any-return]


class VisionTransformer(nn.Module):
    """Images (batch, 3, 224, 224) -> logits (batch, classes)."""

    def __init__(self, layers: int, width: int, heads: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, _PATCH, _PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (_IMAGE // _PATCH) ** 2 + 1, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])  # type: ignore[no-any-return]


def vit(layers: int = 24, width: int = 1024, heads: int = 16, classes: int = 10, batch_size: int = 64) -> Workload:
    """A vision transformer, ViT-L/16 by default, with Adam."""

    def batch(generator: torch.Generator) -> Batch:
        images = torch.rand(batch_size, 3, _IMAGE, _IMAGE, generator=generator)
        return {"images": images, "labels": torch.randint(0, classes, (batch_size,), generator=generator)}

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        return F.cross_entropy(model(batch["images"]), batch["labels"])

    return Workload(
        name="vit",
        unit="samples",
        units_per_batch=batch_size,
        build_model=lambda: VisionTransformer(layers, width, heads, classes),
        build_optimizer=lambda model: torch.optim.Adam(model.parameters(), lr=5e-5),
        make_batch=batch,
        loss=loss,
        blocks=lambda _: tuple(f"layers.{index}" for index in range(layers)),
        description=f"vision transformer of {layers} layers, width {width}, batch {batch_size}",
    )
