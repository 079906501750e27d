"""A classifier of table rows: an MLP with batch norm."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 20


def build_model(features: int, width: int, layers: int) -> nn.Module:
    parts: list[nn.Module] = []
    for index in range(layers):
        parts += [nn.Linear(features if index == 0 else width, width), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(width, CLASSES))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    table = rng.standard_normal((20_000, 100))
    labels = torch.from_numpy(rng.integers(0, CLASSES, 20_000))
    rows = torch.from_numpy(table).float()
    model = build_model(100, args.width, args.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)
    total = torch.zeros(())
    for step in range(args.steps):
        picked = torch.randint(0, len(rows), (args.batch,))
        x, y = rows[picked], labels[picked]
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.detach()
        if step % 50 == 49:
            print(f"step {step}: loss {total.item() / 50:.3f}")
            total.zero_()


if __name__ == "__main__":
    main()
