"""An encoder-decoder: a batch of three tensors, and blocks in two places."""

import torch
import torch.nn.functional as F
from torch import nn

import perfkit


class Model(nn.Module):
    def __init__(self, width: int = 64, depth: int = 2) -> None:
        super().__init__()
        options = {"dim_feedforward": 4 * width, "dropout": 0.0, "batch_first": True}
        self.tokens = nn.Embedding(64, width)
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(width, 4, **options) for _ in range(depth))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(width, 4, **options) for _ in range(depth))
        self.head = nn.Linear(width, 64)

    def forward(self, input_ids, attention_mask, labels):
        source, target = self.tokens(input_ids), self.tokens(F.pad(labels[:, :-1], (1, 0)))
        padding = attention_mask == 0
        for layer in self.encoder:
            source = layer(source, src_key_padding_mask=padding)
        causal = torch.ones(labels.shape[1], labels.shape[1], dtype=torch.bool, device=labels.device).triu(1)
        for layer in self.decoder:
            target = layer(target, source, tgt_mask=causal, memory_key_padding_mask=padding)
        return {"loss": F.cross_entropy(self.head(target).flatten(0, 1), labels.flatten())}


def build(batch_size: int = 8, seq_len: int = 16) -> perfkit.Workload:
    def make_batch(generator: torch.Generator) -> dict[str, torch.Tensor]:
        ids = torch.randint(1, 64, (batch_size, seq_len), generator=generator)
        lengths = torch.randint(seq_len // 2, seq_len + 1, (batch_size, 1), generator=generator)
        return {"input_ids": ids, "attention_mask": (torch.arange(seq_len) < lengths).long(), "labels": ids.flip(1)}

    return perfkit.Workload(
        name="translate",
        unit="tokens",
        units_per_batch=batch_size * 2 * seq_len,
        build_model=Model,
        build_optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=3e-3),
        make_batch=make_batch,
        blocks=lambda _: tuple(f"{part}.{index}" for part in ("encoder", "decoder") for index in range(2)),
    )
