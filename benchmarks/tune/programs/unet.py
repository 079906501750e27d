"""A small U-Net that segments images."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def build_stage(before: int, after: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.Conv2d(after, after, 3, padding=1), nn.ReLU()
    )


class UNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.down1, self.down2 = build_stage(3, width), build_stage(width, 2 * width)
        self.middle = build_stage(2 * width, 4 * width)
        self.up2, self.up1 = build_stage(6 * width, 2 * width), build_stage(3 * width, width)
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        middle = self.middle(F.max_pool2d(second, 2))
        second = self.up2(torch.cat((F.interpolate(middle, scale_factor=2), second), 1))
        first = self.up1(torch.cat((F.interpolate(second, scale_factor=2), first), 1))
        return self.head(first)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=12)
    args = parser.parse_args()

    torch.manual_seed(0)
    images = torch.rand(100, 3, args.size, args.size).contiguous(memory_format=torch.channels_last)
    masks = torch.randint(0, 4, (100, args.size, args.size))
    model = UNet(args.width).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        first = step * args.batch % 96
        x, y = images[first : first + args.batch], masks[first : first + args.batch]
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
