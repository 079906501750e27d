"""Learns the kernel of a Gaussian process by its marginal likelihood."""

import argparse
import math

import torch
from torch import Tensor, nn


class Kernel(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.scales, self.noise = nn.Parameter(torch.zeros(features)), nn.Parameter(torch.tensor(-1.0))

    def forward(self, x: Tensor) -> Tensor:
        scaled = x * self.scales.exp()
        squares = scaled.square().sum(1)
        distances = squares[:, None] + squares[None, :] - 2 * scaled @ scaled.T
        return (-0.5 * distances.clamp(min=0)).exp() + self.noise.exp() * torch.eye(len(x))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--points", type=int, default=400)
    args = parser.parse_args()

    torch.manual_seed(0)
    x = torch.randn(args.points, 8)
    y = x.sin().sum(1, keepdim=True)
    kernel = Kernel(8)
    optimizer = torch.optim.Adam(kernel.parameters(), lr=0.01, fused=True)
    for step in range(args.steps):
        covariance = kernel(x)
        factor = torch.linalg.cholesky(covariance)
        solved = torch.cholesky_solve(y, factor)
        fit = (y * solved).sum()
        loss = 0.5 * (fit + 2 * factor.diagonal().log().sum() + args.points * math.log(2 * math.pi))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
