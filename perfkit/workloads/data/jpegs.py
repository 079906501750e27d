"""JPEGs that look like photographs to a decoder, written to disk once: single files, or packed into tar shards."""

import colorsys
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from perfkit.core.cache_folder import get_cache_folder
from perfkit.core.optional_deps import explain_import_error
from perfkit.workloads.data import synthetic_data

QUALITY = 90
SHARDS = 8  # so that as many workers have one each
_VERSION = 1  # of the random numbers below
_PATTERN = 64  # pixels across, before it is enlarged
# Detail at the scale of pixels, of which JPEGs of photographs are full: with it a pixel takes 2.5 bits.
_GRAIN = 8.0


class Jpegs(NamedTuple):
    """Square images of `pixels` across, in several classes."""

    images: int
    pixels: int
    classes: int

    def list_files(self) -> list[Path]:
        """One file an image, in their order; made where they are not there."""
        folder = _ensure_folder(self._get_folder("files"), self._write_files)
        return sorted(folder.iterdir())

    def list_shards(self) -> list[Path]:
        """Tar files with equally many of them, in the same order; made where they are not there."""
        folder = _ensure_folder(self._get_folder("shards"), self._write_shards)
        return sorted(folder.iterdir())

    def label(self, index: int) -> int:
        """The class of an image."""
        return index % self.classes

    def _get_folder(self, format: str) -> Path:
        return get_cache_folder() / "images" / f"{format}-v{_VERSION}-{self.images}x{self.pixels}px-{self.classes}"

    def _write_files(self, to: Path) -> None:
        for index, jpeg in enumerate(self._draw_images()):
            (to / f"{index:06}.jpg").write_bytes(jpeg)

    def _write_shards(self, to: Path) -> None:
        try:
            import webdataset
        except ModuleNotFoundError as error:
            raise explain_import_error("webdataset", "webdataset", error) from error

        files = self.list_files()
        for shard, part in enumerate(np.array_split(np.arange(self.images), min(SHARDS, self.images))):
            with webdataset.TarWriter(str(to / f"{shard:03}.tar")) as writer:
                for index in part.tolist():
                    writer.write({"__key__": f"{index:06}", "jpg": files[index].read_bytes()})

    def _draw_images(self) -> Iterator[bytes]:
        """Each image as a JPEG: its class's color and plane wave, and grain."""
        for index in range(self.images):
            label = self.label(index)
            generator = np.random.default_rng((_VERSION, index))
            drawn = _scale_image(_draw_wave(label, self.classes, generator), self.pixels)
            tint = np.asarray(colorsys.hsv_to_rgb(label / self.classes, 0.6, 1.0), np.float32)
            grain = generator.normal(0.0, _GRAIN, drawn.shape).astype(np.float32)
            pixels = (drawn * tint + grain).clip(0, 255).astype(np.uint8)
            jpeg = io.BytesIO()
            Image.fromarray(pixels).save(jpeg, "JPEG", quality=QUALITY)
            yield jpeg.getvalue()


def _draw_wave(label: int, classes: int, generator: np.random.Generator) -> NDArray[np.uint8]:
    wave = synthetic_data.compute_wave(
        torch.tensor([label]), torch.tensor(generator.uniform(size=(1, 3, 1, 1))), _PATTERN, classes
    )
    shade: NDArray[np.uint8] = (127.5 + 90 * wave[0].permute(1, 2, 0).numpy()).astype(np.uint8)
    return shade


def _scale_image(image: NDArray[np.uint8], pixels: int) -> NDArray[np.float32]:
    enlarged = Image.fromarray(image).resize((pixels, pixels), Image.Resampling.BICUBIC)
    return np.asarray(enlarged, np.float32)


def _ensure_folder(to: Path, write: Callable[[Path], None]) -> Path:
    """The folder, written whole or not at all: several processes may find it missing at once."""
    if to.is_dir():
        return to
    to.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{to.name}.", dir=to.parent))
    try:
        write(temporary)
        try:
            temporary.rename(to)
        except OSError:
            if not to.is_dir():  # another process was first
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return to
