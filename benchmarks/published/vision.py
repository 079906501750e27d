"""Vision transformers as the measured programs build and train them.

`vit` is a workload for `perfkit plan -w benchmarks/published/vision.py:vit:KEY=VALUE`.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit import Workload
from perfkit.workloads.workload import Batch, make_adamw

_IMAGE = 224


class FirstFlash(nn.MultiheadAttention):
    """Attention around FlashAttention 1: (batch, patches, width) -> the same.

    It takes copies of queries, keys and values, and its output is of (batch, patches, heads, width of a head), which is
    copied into the order of patches first.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        batch, patches, width = x.shape
        projected = F.linear(x.transpose(0, 1), self.in_proj_weight, self.in_proj_bias)
        projected = projected.unflatten(-1, (3, width)).movedim(-2, 0).contiguous()
        q, k, v = (part.view(patches, batch, self.num_heads, -1).permute(1, 2, 0, 3) for part in projected)
        with torch.no_grad():
            _copies = [part.transpose(1, 2).contiguous() for part in (q, k, v)]
        y = F.scaled_dot_product_attention(q, k, v).clone()
        y = self.out_proj(y.permute(2, 0, 1, 3).reshape(batch * patches, width))
        return y.view(patches, batch, width).transpose(0, 1)  # type: ignore[no-any-return]


class Attention(nn.MultiheadAttention):
    """Attention as torch has it: (batch, patches, width) -> the same."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(x, x, x, need_weights=False)[0]


class MergedAttention(nn.Module):
    """Attention as timm has it, one layer for queries, keys and values: (batch, patches, width) -> the same."""

    fused = True

    def __init__(self, width: int, heads: int, batch_first: bool) -> None:
        assert batch_first, "timm's has no other order"
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.scale = (width // heads) ** -0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, patches, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, patches, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, patches, width))  # type: ignore[no-any-return]


class ExplicitAttention(MergedAttention):
    """Attention as timm had it before torch 2.0."""

    fused = False


ATTENTION: Mapping[str, type[nn.Module]] = {
    "torch": Attention,
    "flash1": FirstFlash,
    "timm": MergedAttention,
    "timm_explicit": ExplicitAttention,
}


class SwiGLU(nn.Module):
    """The gated layers of DINOv2's giant: (batch, patches, width) -> the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = (width * 8 // 3 + 7) // 8 * 8
        self.up, self.down = nn.Linear(width, 2 * hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)  # type: ignore[no-any-return]


class Scale(nn.Module):
    """A factor for each element: (batch, patches, width) -> the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gamma


class Layer(nn.Module):
    """An encoder layer with the norms first: (batch, patches, width) -> the same."""

    def __init__(self, width: int, heads: int, attention: str, gated: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = ATTENTION[attention](width, heads, batch_first=True)
        plain = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.mlp = SwiGLU(width) if gated else plain
        self.scale1, self.scale2 = (Scale(width) if gated else nn.Identity() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.scale1(self.attention(self.norm1(x)))
        return x + self.scale2(self.mlp(self.norm2(x)))  # type: ignore[no-any-return]


class VisionTransformer(nn.Module):
    """Images (batch, 3, 224, 224) -> logits (batch, classes)."""

    def __init__(
        self, layers: int, width: int, heads: int, classes: int, patch: int, attention: str, gated: bool
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (_IMAGE // patch) ** 2 + 1, width))
        self.layers = nn.ModuleList(Layer(width, heads, attention, gated) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])  # type: ignore[no-any-return]


class FirstForeachAdam(torch.optim.Adam):
    """Adam as torch 2.0 and 2.1 updated all parameters at once: the denominators are made beside the roots."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            (beta1, beta2), count = group["betas"], group.get("count", 0) + 1
            group["count"] = count
            parameters = [each for each in group["params"] if each.grad is not None]
            for each in parameters:
                if not self.state[each]:
                    self.state[each].update(exp_avg=torch.zeros_like(each), exp_avg_sq=torch.zeros_like(each))
            gradients = [each.grad for each in parameters]
            means, squares = ([self.state[each][name] for each in parameters] for name in ("exp_avg", "exp_avg_sq"))
            torch._foreach_lerp_(means, gradients, 1 - beta1)
            torch._foreach_mul_(squares, beta2)
            torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)
            roots = torch._foreach_sqrt(squares)
            torch._foreach_div_(roots, (1 - beta2**count) ** 0.5)
            denominators = torch._foreach_add(roots, group["eps"])
            torch._foreach_addcdiv_(parameters, means, denominators, -group["lr"] / (1 - beta1**count))


def _build_first_adam(model: nn.Module) -> torch.optim.Optimizer:
    return FirstForeachAdam(model.parameters(), lr=5e-5)


def vit(
    layers: int = 24,
    width: int = 1024,
    heads: int = 16,
    classes: int = 10,
    patch: int = 16,
    batch_size: int = 64,
    attention: str = "torch",
    gated: bool = False,
) -> Workload:
    """A vision transformer, torchvision's ViT-L/16 by default.

    `attention` is `torch` or `flash1`, with the Adam of the nightly torch 2.1 of June 2023, or `timm`, with AdamW.
    """

    def batch(generator: torch.Generator) -> Batch:
        images = torch.rand(batch_size, 3, _IMAGE, _IMAGE, generator=generator)
        return {"images": images, "labels": torch.randint(0, classes, (batch_size,), generator=generator)}

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        return F.cross_entropy(model(batch["images"]), batch["labels"])

    return Workload(
        name="vit",
        unit="samples",
        units_per_batch=batch_size,
        build_model=lambda: VisionTransformer(layers, width, heads, classes, patch, attention, gated),
        build_optimizer=make_adamw if attention.startswith("timm") else _build_first_adam,
        make_batch=batch,
        loss=loss,
        blocks=lambda _: tuple(f"layers.{index}" for index in range(layers)),
        description=f"vision transformer of {layers} layers, width {width}, batch {batch_size}",
    )
