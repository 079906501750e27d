"""`images`: JPEGs that are made once, and samples that depend on seed, epoch and index alone."""

import io
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from perfkit.core.errors import UsageError
from perfkit.workloads.data.augmentations import MEAN, STD, PillowAugment, draw_random_crop
from perfkit.workloads.data.image_datasets import ImageFiles, ImageShards
from perfkit.workloads.data.jpegs import Jpegs
from perfkit.workloads.images import Images
from perfkit.workloads.resnet import ResNet, ResNetModel, compute_flops_per_image

FEW = Jpegs(images=6, pixels=40, classes=3)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path))
    return tmp_path


def test_jpegs_are_made_once_and_always_the_same(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FEW.list_files()
    assert [file.name for file in files] == [f"{index:06}.jpg" for index in range(6)]
    made = [file.read_bytes() for file in files]
    times = [file.stat().st_mtime_ns for file in files]
    assert [file.stat().st_mtime_ns for file in FEW.list_files()] == times
    monkeypatch.setenv("PERFKIT_CACHE", str(cache / "elsewhere"))
    assert [file.read_bytes() for file in FEW.list_files()] == made
    first, fourth = (Image.open(io.BytesIO(made[index])) for index in (0, 3))
    assert first.format == "JPEG"
    assert first.size == (40, 40)
    assert made[0] != made[3]  # of one class, and yet others
    assert [FEW.label(index) for index in range(4)] == [0, 1, 2, 0]
    colors = [np.asarray(image, np.float32).mean((0, 1)) for image in (first, fourth)]
    np.testing.assert_allclose(*colors, atol=25)


def test_a_process_that_comes_second_takes_what_the_first_made(cache: Path) -> None:
    def first_made_meanwhile(to: Path) -> None:
        (to / "mine").touch()
        FEW.list_files()

    from perfkit.workloads.data.jpegs import _ensure_folder

    folder = FEW._get_folder("files")
    assert _ensure_folder(folder, first_made_meanwhile) == folder
    assert len(list(folder.iterdir())) == 6
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_part_has_8_to_100_per_cent_of_the_area_and_sides_of_3_to_4() -> None:
    drawn = np.random.default_rng(0)
    for _ in range(200):
        left, top, right, bottom = draw_random_crop(60, 40, drawn)
        assert 0 <= left < right <= 60
        assert 0 <= top < bottom <= 40
        across, down = right - left, bottom - top
        assert 0.08 - 1e-9 <= across * down / 2400 <= 1
        assert 3 / 4 - 1e-9 <= across / down <= 4 / 3 + 1e-9
    assert draw_random_crop(1000, 10, np.random.default_rng(0)) == (495, 0, 505, 10)  # no trial fits


def test_pixels_are_normalised_channel_by_channel() -> None:
    grey = Image.new("RGB", (8, 8), (51, 102, 255))
    made = PillowAugment(4)(grey, np.random.default_rng(0))
    assert made.shape == (3, 4, 4)
    assert made.dtype == torch.float32
    for channel, value in enumerate((0.2, 0.4, 1.0)):
        expected = (value - MEAN[channel]) / STD[channel]
        torch.testing.assert_close(made[channel], torch.full((4, 4), expected))


def test_a_sample_depends_on_seed_epoch_and_index_alone() -> None:
    def samples(seed: int, epoch: int) -> torch.Tensor:
        dataset = ImageFiles(FEW, PillowAugment(16), seed)
        dataset.set_epoch(epoch)
        dataset[1]  # what was asked before does not matter
        return torch.stack([dataset[index]["images"] for index in (0, 5)])

    assert torch.equal(samples(0, 0), samples(0, 0))
    assert not torch.equal(samples(0, 0), samples(1, 0))
    assert not torch.equal(samples(0, 0), samples(0, 1))


def test_shards_hold_the_same_in_the_same_order() -> None:
    pytest.importorskip("webdataset")
    files, shards = (kind(FEW, PillowAugment(16), 3) for kind in (ImageFiles, ImageShards))
    assert len(FEW.list_shards()) == 6
    for index, sample in enumerate(shards):
        assert sample["labels"] == files[index]["labels"]
        assert torch.equal(sample["images"], files[index]["images"])
    assert index == 5


def test_a_batch_goes_through_the_network_and_epochs_end_whole() -> None:
    workload = Images(images=10, pixels=40, batch_size=4).build()
    assert workload.make_loader is not None
    batches = list(workload.make_loader(torch.Generator().manual_seed(0)))
    assert [len(batch["labels"]) for batch in batches] == [4, 4]
    assert batches[0]["images"].shape == (4, 3, 64, 64)
    assert workload.loss is not None
    loss = workload.loss(workload.build_model(), batches[0])
    assert isinstance(loss, torch.Tensor)
    assert math.isfinite(loss.item())


def test_a_narrower_network_multiplies_less() -> None:
    """A quarter of the channels: a sixteenth of a convolution's work, a quarter of the first one's and the head's."""
    stem = 16 * 16 * 49 * 3 * 64
    head = 512 * 10
    whole, quarter = (compute_flops_per_image(18, 32, 10, width) for width in (64, 16))
    others = (whole - 4 * stem - 6 * head) // 6
    assert quarter == 6 * others // 16 + 4 * stem // 4 + 6 * head // 4
    assert ResNet(width=16).build().model_flops_per_unit == compute_flops_per_image(18, 64, 10, 16)
    assert ResNetModel(18, 10, 16).fc.in_features == 128


def test_too_few_images_are_refused() -> None:
    with pytest.raises(UsageError, match=r"\b3\b.*\b4\b"):
        Images(images=3, batch_size=4).build()
