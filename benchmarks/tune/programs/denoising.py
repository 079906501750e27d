"""A denoising network on signals, with one-dimensional convolutions."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Denoiser(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.levels = nn.Embedding(100, width)
        self.first = nn.Conv1d(1, width, 5, padding=2)
        self.middle = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(3))
        self.last = nn.Conv1d(width, 1, 5, padding=2)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        x = self.first(x) + self.levels(level).unsqueeze(-1)
        for layer in self.middle:
            x = x + F.silu(layer(x))
        return self.last(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=48)
    args = parser.parse_args()

    torch.manual_seed(0)
    signals = torch.randn(2000, 1, args.length).cumsum(-1) / 10
    amounts = torch.linspace(0.0, 1.0, 100)
    model = Denoiser(args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        clean = signals[torch.randint(0, len(signals), (args.batch,))]
        level = torch.randint(0, 100, (args.batch,))
        noise = torch.randn_like(clean)
        noisy = clean + amounts[level].view(-1, 1, 1) * noise
        loss = F.mse_loss(model(noisy, level), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
