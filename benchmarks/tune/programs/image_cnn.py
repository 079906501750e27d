"""A small convolutional network on images that a DataLoader augments."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset[tuple[Tensor, int]]):
    def __init__(self, count: int, size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8, generator=generator)
        self.labels = torch.randint(0, 10, (count,), generator=generator).tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = self.images[index].float() / 255
        if index % 2:
            image = image.flip(-1)
        return image, self.labels[index]


def build_model(width: int) -> nn.Module:
    parts: list[nn.Module] = []
    for before, after in ((3, width), (width, width), (width, 2 * width), (2 * width, 2 * width)):
        parts += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        if after == before:
            parts.append(nn.MaxPool2d(2))
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--width", type=int, default=24)
    args = parser.parse_args()

    torch.manual_seed(0)
    images = Images(args.batch * 25, args.size)
    loader = DataLoader(images, batch_size=args.batch, shuffle=True, num_workers=1, persistent_workers=True)
    model = build_model(args.width).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    step = 0
    while step < args.steps:
        for x, y in loader:
            x = x.contiguous(memory_format=torch.channels_last)
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(f"step {step}: loss {loss.item():.3f}")
            if step == args.steps:
                break


if __name__ == "__main__":
    main()
