"""Turns a decoded image into the network's input: a random crop, resized, perhaps flipped, normalized.

Szegedy et al. 2014 (arXiv 1409.4842, section 6): the crop has 8 to 100 % of the area, and sides of 3:4 to 4:3.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from perfkit.core.optional_deps import explain_import_error

SCALE = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
# Of ImageNet, as everywhere: mean and standard deviation of each channel.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
_MEAN, _STD = np.asarray(MEAN, np.float32), np.asarray(STD, np.float32)
_TRIALS = 10

# A decoded RGB image and random numbers -> (3, size, size) in fp32.
Augment = Callable[[Any, np.random.Generator], torch.Tensor]


class PillowAugment:
    """By Pillow, which resizes the part without copying it first."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, image: Any, drawn: np.random.Generator) -> torch.Tensor:
        box = draw_random_crop(image.width, image.height, drawn)
        part = image.resize((self.size, self.size), Image.Resampling.BILINEAR, box=box)
        if drawn.random() < 0.5:
            part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels: NDArray[np.float32] = np.asarray(part, np.float32) / np.float32(255)
        return _move_channels_first((pixels - _MEAN) / _STD)


class AlbumentationsAugment:
    """The same by albumentations, which works on arrays with OpenCV, with different random numbers."""

    def __init__(self, size: int) -> None:
        try:
            import albumentations
        except ModuleNotFoundError as error:
            raise explain_import_error("albumentations", "albumentations albucore==0.0.24", error) from error

        self._compose = albumentations.Compose(
            [
                albumentations.RandomResizedCrop((size, size), scale=SCALE, ratio=RATIO),
                albumentations.HorizontalFlip(),
                albumentations.Normalize(MEAN, STD),
            ]
        )

    def __call__(self, image: Any, drawn: np.random.Generator) -> torch.Tensor:
        self._compose.set_random_seed(int(drawn.integers(2**32)))
        return _move_channels_first(self._compose(image=np.asarray(image))["image"])


AUGMENTS: dict[str, Callable[[int], Augment]] = {"pillow": PillowAugment, "albumentations": AlbumentationsAugment}


def draw_random_crop(width: int, height: int, drawn: np.random.Generator) -> tuple[float, float, float, float]:
    """The box (left, top, right, bottom) of a random part; where none fits in ten trials the largest square."""
    for _ in range(_TRIALS):
        area = drawn.uniform(*SCALE) * width * height
        ratio = math.exp(drawn.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        across, down = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if across <= width and down <= height:
            left, top = drawn.uniform(0, width - across), drawn.uniform(0, height - down)
            return left, top, left + across, top + down
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def _move_channels_first(pixels: NDArray[np.float32]) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32))
