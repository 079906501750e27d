"""Datasets of JPEGs: decoded and augmented a sample at a time, from single files or from tar shards.

What is random in a sample depends on (seed, epoch, index) alone, so that it is the same in any process.
"""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset

from perfkit.core.optional_deps import explain_import_error
from perfkit.workloads.data.augmentations import Augment
from perfkit.workloads.data.jpegs import Jpegs

Sample = dict[str, torch.Tensor | int]


class _JpegSamples:
    """Common part of both datasets: decodes a JPEG into a sample."""

    def __init__(self, jpegs: Jpegs, augment: Augment, seed: int) -> None:
        self.jpegs = jpegs
        self.augment = augment
        self.seed = seed
        # In shared memory, so that persistent workers see it, too.
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the pass over the data, from 0."""
        self.epoch.fill_(epoch)

    def sample(self, index: int, jpeg: bytes) -> Sample:
        """The image (3, size, size) in fp32 and its label."""
        decoded = Image.open(io.BytesIO(jpeg)).convert("RGB")
        drawn = np.random.default_rng((self.seed, int(self.epoch), index))
        return {"images": self.augment(decoded, drawn), "labels": self.jpegs.label(index)}


class ImageFiles(_JpegSamples, Dataset[Sample]):
    """One file an image."""

    def __init__(self, jpegs: Jpegs, augment: Augment, seed: int) -> None:
        super().__init__(jpegs, augment, seed)
        self._files = jpegs.list_files()

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Sample:
        return self.sample(index, self._files[index].read_bytes())


class ImageShards(_JpegSamples, IterableDataset[Sample]):
    """Tar shards, read by webdataset one after the other; each worker reads those that fall to it."""

    def __init__(self, jpegs: Jpegs, augment: Augment, seed: int) -> None:
        super().__init__(jpegs, augment, seed)
        try:
            import webdataset
        except ModuleNotFoundError as error:
            raise explain_import_error("webdataset", "webdataset", error) from error

        self._packed = webdataset.WebDataset(
            list(map(str, jpegs.list_shards())), shardshuffle=False, nodesplitter=_keep_all_shards
        )

    def __iter__(self) -> Iterator[Sample]:
        for packed in self._packed:
            yield self.sample(int(packed["__key__"]), packed["jpg"])


def _keep_all_shards(shards: Iterator[Any]) -> Iterator[Any]:
    """Every rank reads all, as it reads all files, and augments them differently."""
    return shards
