"""A workload with parameter groups, whose model computes its loss: weight decay for matrices alone."""

import torch
import torch.nn.functional as F
from torch import nn

import perfkit


def block() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(64, 128)
        self.blocks = nn.ModuleList(block() for _ in range(4))
        self.head = nn.Linear(128, 64, bias=False)

    def forward(self, idx, targets):
        x = self.tokens(idx)
        for block in self.blocks:
            x = x + block(x)
        logits = self.head(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def build_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    named = dict(model.named_parameters())
    groups = [
        {"params": [p for name, p in named.items() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for name, p in named.items() if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=6e-4)


def build(batch_size: int = 8, seq_len: int = 32) -> perfkit.Workload:
    def make_batch(generator: torch.Generator) -> dict[str, torch.Tensor]:
        ids = torch.randint(8, (batch_size, seq_len + 1), generator=generator).cumsum(dim=1) % 64
        return {"idx": ids[:, :-1].contiguous(), "targets": ids[:, 1:].contiguous()}

    return perfkit.Workload(
        name="grouped",
        unit="tokens",
        units_per_batch=batch_size * seq_len,
        build_model=Model,
        build_optimizer=build_optimizer,
        make_batch=make_batch,
        blocks=lambda model: tuple(f"blocks.{index}" for index in range(len(model.blocks))),
    )
