"""A small network that learns from a large one."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def build_network(width: int, layers: int) -> nn.Module:
    parts: list[nn.Module] = [nn.Linear(128, width), nn.GELU()]
    for _ in range(layers):
        parts += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*parts, nn.Linear(width, 50))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=320)
    args = parser.parse_args()

    torch.manual_seed(0)
    samples, labels = torch.randn(5000, 128), torch.randint(0, 50, (5000,))
    teacher = build_network(2 * args.width, 2).eval()
    student = build_network(args.width, 2)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        picked = torch.randint(0, len(samples), (args.batch,))
        x, y = samples[picked], labels[picked]
        with torch.no_grad():
            taught = teacher(x)
        logits = student(x)
        soft = F.kl_div(
            F.log_softmax(logits / 2, 1), F.log_softmax(taught / 2, 1), log_target=True, reduction="batchmean"
        )
        loss = F.cross_entropy(logits, y) + 4 * soft
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
