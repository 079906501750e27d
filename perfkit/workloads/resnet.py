"""`resnet`: residual networks for images, 18 and 50 layers deep (He et al. 2015, arXiv 1512.03385, table 1).

As in the common implementations: batch norm after every convolution, projection shortcuts where the shape changes,
and in the deeper net the stride in the 3x3 convolution ("v1.5"). Module names are those of torchvision.
"""

from functools import partial
from typing import Annotated, ClassVar

import msgspec
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.optim import Optimizer

from perfkit.core.errors import UsageError
from perfkit.workloads.data import synthetic_data
from perfkit.workloads.parameters import Count, Parameters
from perfkit.workloads.workload import Batch, Workload

WIDTH = 64  # channels of the first stage; each later one has twice those of the one before
STAGES = 4
STEM_KERNEL = 7


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _make_conv(channels, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _make_conv(width, width, 3, 1)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _make_shortcut(channels, width, stride)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        out: torch.Tensor = self.relu(y + self.downsample(x))
        return out


class Bottleneck(nn.Module):
    """1x1 down, 3x3, 1x1 up to four times the width, and a shortcut."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _make_conv(channels, width, 1, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _make_conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _make_conv(width, 4 * width, 1, 1)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = _make_shortcut(channels, 4 * width, stride)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        out: torch.Tensor = self.relu(y + self.downsample(x))
        return out


# depth -> kind of block, blocks per stage
DEPTHS: dict[int, tuple[type[BasicBlock] | type[Bottleneck], tuple[int, ...]]] = {
    18: (BasicBlock, (2, 2, 2, 2)),
    50: (Bottleneck, (3, 4, 6, 3)),
}


class ResNetModel(nn.Module):
    """Images (batch, 3, height, width) -> logits (batch, classes)."""

    def __init__(self, depth: int, classes: int, width: int = WIDTH) -> None:
        super().__init__()
        block, counts = DEPTHS[depth]
        widths = get_stage_widths(width)
        self.conv1 = _make_conv(3, widths[0], STEM_KERNEL, 2)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU()
        channels = widths[0]
        for stage, (width, count) in enumerate(zip(widths, counts, strict=True), start=1):
            blocks = []
            for index in range(count):
                blocks.append(block(channels, width, stride=2 if stage > 1 and index == 0 else 1))
                channels = width * block.expansion
            self.add_module(f"layer{stage}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # He et al. 2015, arXiv 1502.01852, section 2.2
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(self.relu(self.bn1(self.conv1(images))), kernel_size=3, stride=2, padding=1)
        for stage in range(1, STAGES + 1):
            x = self.get_submodule(f"layer{stage}")(x)
        logits: torch.Tensor = self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return logits


class ResNet(Parameters):
    """Parameters of `resnet`."""

    usage: ClassVar[str] = "resnet"
    summary: ClassVar[str] = "residual network for images, batch norm, SGD"
    on_gpu: ClassVar = {"depth": 50, "batch_size": 64, "image_size": 224, "classes": 1000}

    depth: Annotated[int, msgspec.Meta(title="|".join(map(str, DEPTHS)))] = 18
    batch_size: Annotated[Count, msgspec.Meta(title="integer")] = 8
    image_size: Annotated[Count, msgspec.Meta(title="integer", description="pixels")] = 64
    classes: Annotated[Count, msgspec.Meta(title="integer")] = 10
    width: Annotated[Count, msgspec.Meta(title="integer", description="channels of the first stage")] = WIDTH

    def build(self) -> Workload:
        if self.depth not in DEPTHS:
            raise UsageError(f"resnet: depth must be one of {', '.join(map(str, DEPTHS))}, got {self.depth}")
        if self.image_size < 32:  # the stages halve it five times
            raise UsageError(f"resnet: image_size must be at least 32, got {self.image_size}")
        if self.batch_size == 1 and self.image_size == 32:
            raise UsageError(
                "resnet: one 32-pixel image leaves one value per channel, which batch norm cannot normalize; "
                "use a larger image or batch"
            )
        if self.classes < 2:
            raise UsageError("resnet: classes must be at least 2, or there is nothing to predict")
        size = f"{self.image_size}x{self.image_size}"
        return Workload(
            name=f"resnet {self.depth}",
            unit="samples",
            units_per_batch=self.batch_size,
            build_model=partial(ResNetModel, self.depth, self.classes, self.width),
            build_optimizer=partial(_make_sgd, batch_size=self.batch_size),
            make_batch=partial(_make_batch, parameters=self),
            loss=_compute_loss,
            blocks=lambda _model: list_block_names(self.depth),
            model_flops_per_unit=float(compute_flops_per_image(self.depth, self.image_size, self.classes, self.width)),
            description=f"{self.classes} classes, batch {self.batch_size} of {size} pixels",
        )


def get_stage_widths(width: int) -> tuple[int, ...]:
    """Channels of the stages, where the first has `width`."""
    return tuple(width * 2**stage for stage in range(STAGES))


def compute_flops_per_image(depth: int, image_size: int, classes: int, width: int = WIDTH) -> int:
    """FLOPs of forward and backward per image, two per multiply-add of convolutions and classifier.

    Backward costs twice forward, except in the first convolution, whose input (the image) needs no gradient.
    """
    block, counts = DEPTHS[depth]
    size = _compute_halved_size(image_size)
    widths = get_stage_widths(width)
    stem = size**2 * STEM_KERNEL**2 * 3 * widths[0]
    size = _compute_halved_size(size)  # max pooling
    macs = stem
    channels = widths[0]
    for stage, (width, count) in enumerate(zip(widths, counts, strict=True)):
        out_channels = width * block.expansion
        for index in range(count):
            out = _compute_halved_size(size) if stage > 0 and index == 0 else size
            if block is BasicBlock:
                macs += out**2 * 9 * (channels * width + width * width)
            else:
                macs += size**2 * channels * width + out**2 * (9 * width * width + width * out_channels)
            if channels != out_channels or out != size:
                macs += out**2 * channels * out_channels
            channels, size = out_channels, out
    macs += channels * classes
    return 6 * macs - 2 * stem


def _compute_halved_size(size: int) -> int:
    return (size + 1) // 2  # what a stride of 2 with "same" padding leaves


def _make_conv(channels: int, out_channels: int, kernel: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(channels, out_channels, kernel, stride=stride, padding=kernel // 2, bias=False)


def _make_shortcut(channels: int, out_channels: int, stride: int) -> nn.Module:
    if stride == 1 and channels == out_channels:
        return nn.Identity()
    return nn.Sequential(_make_conv(channels, out_channels, 1, stride), nn.BatchNorm2d(out_channels))


def list_block_names(depth: int) -> tuple[str, ...]:
    """Names of the residual blocks, first to last."""
    counts = DEPTHS[depth][1]
    return tuple(f"layer{stage}.{index}" for stage, count in enumerate(counts, start=1) for index in range(count))


def _make_batch(generator: torch.Generator, parameters: ResNet) -> Batch:
    images, labels = synthetic_data.draw_images(
        generator, parameters.batch_size, 3, parameters.image_size, parameters.classes
    )
    return {"images": images, "labels": labels}


def _compute_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["images"]), batch["labels"])


def _make_sgd(model: nn.Module, batch_size: int) -> Optimizer:
    """He et al. 2015, section 3.4: momentum 0.9, decay 1e-4, and a rate of 0.1 for a batch of 256, scaled to this one.

    Not AdamW: its first updates follow the signs of gradients, many of them near zero, so that a rounding grows a
    thousandfold in a step.
    """
    return torch.optim.SGD(model.parameters(), lr=0.1 * batch_size / 256, momentum=0.9, weight_decay=1e-4)
