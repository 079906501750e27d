"""`images`: a residual network over JPEGs on disk, which every step reads, decodes and augments."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, ClassVar

import msgspec
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from perfkit.core.errors import UsageError
from perfkit.workloads.data.augmentations import AUGMENTS, Augment
from perfkit.workloads.data.image_datasets import ImageFiles, ImageShards, Sample
from perfkit.workloads.data.jpegs import Jpegs
from perfkit.workloads.parameters import Count, Parameters
from perfkit.workloads.resnet import DEPTHS, WIDTH, ResNet
from perfkit.workloads.workload import Workload


class Images(Parameters):
    """Parameters of `images`."""

    usage: ClassVar[str] = "images"
    summary: ClassVar[str] = "residual network over JPEGs that every step decodes and augments"
    on_gpu: ClassVar = {
        "depth": 50,
        "width": WIDTH,
        "batch_size": 64,
        "image_size": 224,
        "images": 2048,
        "pixels": 512,
        "classes": 1000,
    }

    depth: Annotated[int, msgspec.Meta(title="|".join(map(str, DEPTHS)))] = 18
    width: Annotated[Count, msgspec.Meta(title="integer", description="channels of the first stage")] = 16
    batch_size: Annotated[Count, msgspec.Meta(title="integer")] = 32
    image_size: Annotated[Count, msgspec.Meta(title="integer", description="image size for training, in pixels")] = 64
    images: Annotated[Count, msgspec.Meta(title="integer", description="images per epoch")] = 512
    pixels: Annotated[int, msgspec.Meta(title="integer", description="width of the JPEGs, in pixels", ge=32)] = 384
    classes: Annotated[Count, msgspec.Meta(title="integer")] = 10

    def build(self) -> Workload:
        if self.images < self.batch_size:
            raise UsageError(f"images: {self.images} images do not fill a batch of {self.batch_size}")
        network = ResNet(
            depth=self.depth,
            width=self.width,
            batch_size=self.batch_size,
            image_size=self.image_size,
            classes=self.classes,
        ).build()
        data = f"{self.images} JPEGs of {self.pixels}x{self.pixels}"
        return replace(
            network,
            name=f"images, {network.name}",
            make_batch=None,
            make_loader=partial(_make_loader, parameters=self),
            description=f"{network.description}, of {data}",
        )


# Layout of the JPEGs on disk.
FORMATS: Mapping[str, Callable[[Jpegs, Augment, int], Dataset[Sample]]] = {"files": ImageFiles, "shards": ImageShards}


def _make_loader(
    generator: torch.Generator, parameters: Images, format: str = "files", augment: str = "pillow"
) -> DataLoader[Any]:
    """Load in the order on disk: images were drawn at random, so that no order is better than another."""
    jpegs = Jpegs(parameters.images, parameters.pixels, parameters.classes)
    samples = FORMATS[format](jpegs, AUGMENTS[augment](parameters.image_size), generator.initial_seed())
    return DataLoader(samples, batch_size=parameters.batch_size, drop_last=True, collate_fn=default_collate)
