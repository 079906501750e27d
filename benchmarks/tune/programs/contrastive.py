"""Contrastive learning of two noisy views."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def compute_loss(one: Tensor, other: Tensor, temperature: float) -> Tensor:
    one, other = F.normalize(one), F.normalize(other)
    similarities = one @ other.T / temperature
    return F.cross_entropy(similarities, torch.arange(len(one)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--width", type=int, default=512)
    args = parser.parse_args()

    torch.manual_seed(0)
    samples = torch.randn(5000, 256)
    encoder = nn.Sequential(
        nn.Linear(256, args.width), nn.ReLU(), nn.Linear(args.width, args.width), nn.ReLU(), nn.Linear(args.width, 64)
    )
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9, fused=True)
    for step in range(args.steps):
        batch = samples[torch.randint(0, len(samples), (args.batch,))]
        noise = 0.1 * torch.randn(2, args.batch, 256)
        embedded = encoder(torch.cat((batch + noise[0], batch + noise[1])))
        one, other = embedded.chunk(2)
        loss = compute_loss(one, other, 0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
