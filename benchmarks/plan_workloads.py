"""Workloads that `benchmarks.plan_memory` plans beside the built-in ones: an LSTM and a convolutional VAE."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit import Workload
from perfkit.workloads.workload import Batch, make_adamw


class LanguageModel(nn.Module):
    """Token ids (batch, time) -> logits (batch, time, vocab)."""

    def __init__(self, vocab: int = 2000, width: int = 256) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.layers = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.layers(self.tokens(ids))
        out: torch.Tensor = self.head(hidden)
        return out


def lstm(batch_size: int = 8, seq_len: int = 64) -> Workload:
    def batch(generator: torch.Generator) -> Batch:
        return {"ids": torch.randint(0, 2000, (batch_size, seq_len + 1), generator=generator)}

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        return F.cross_entropy(model(batch["ids"][:, :-1]).flatten(0, 1), batch["ids"][:, 1:].flatten())

    return Workload(
        name="lstm",
        unit="tokens",
        units_per_batch=batch_size * seq_len,
        build_model=LanguageModel,
        build_optimizer=make_adamw,
        make_batch=batch,
        loss=loss,
    )


class Autoencoder(nn.Module):
    """Images (batch, 3, 64, 64) -> as decoded, mean and log variance (Kingma and Welling, arXiv 1312.6114)."""

    def __init__(self, latent: int = 64) -> None:
        super().__init__()
        down = [layer for a, b in ((3, 32), (32, 64), (64, 128)) for layer in (nn.Conv2d(a, b, 4, 2, 1), nn.ReLU())]
        up = [layer for a, b in ((128, 64), (64, 32)) for layer in (nn.ConvTranspose2d(a, b, 4, 2, 1), nn.ReLU())]
        self.encoder = nn.Sequential(*down, nn.Flatten())
        self.mean, self.log_variance = nn.Linear(128 * 64, latent), nn.Linear(128 * 64, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, 128 * 64),
            nn.Unflatten(1, (128, 8, 8)),
            *up,
            nn.ConvTranspose2d(32, 3, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.encoder(images)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        drawn = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(drawn), mean, log_variance


def vae(batch_size: int = 16) -> Workload:
    def batch(generator: torch.Generator) -> Batch:
        return {"images": torch.rand(batch_size, 3, 64, 64, generator=generator)}

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        images, mean, log_variance = model(batch["images"])
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        return (F.mse_loss(images, batch["images"], reduction="sum") + divergence) / batch_size

    return Workload(
        name="vae",
        unit="samples",
        units_per_batch=batch_size,
        build_model=Autoencoder,
        build_optimizer=make_adamw,
        make_batch=batch,
        loss=loss,
    )
