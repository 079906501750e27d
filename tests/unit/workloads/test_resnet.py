"""`resnet`: published parameter counts, and FLOPs against a hand calculation written out layer by layer."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from perfkit.core.errors import UsageError
from perfkit.workloads.model_loss import compute_loss
from perfkit.workloads.resnet import ResNet, ResNetModel, compute_flops_per_image


@pytest.mark.parametrize(("depth", "published"), [(18, 11_689_512), (50, 25_557_032)])
def test_parameters_are_the_published_ones(depth: int, published: int) -> None:
    with torch.device("meta"):
        model = ResNetModel(depth, classes=1000)
    assert sum(parameter.numel() for parameter in model.parameters()) == published


def conv(out_size: int, kernel: int, channels: int, out_channels: int) -> int:
    return out_size**2 * kernel**2 * channels * out_channels


def resnet50_macs() -> tuple[int, int]:
    """Multiply-adds of one 224 pixel image: those of the first convolution, and all of them."""
    first = conv(112, 7, 3, 64)
    layer1 = (
        (conv(56, 1, 64, 64) + conv(56, 3, 64, 64) + conv(56, 1, 64, 256) + conv(56, 1, 64, 256))  # with a projection
        + 2 * (conv(56, 1, 256, 64) + conv(56, 3, 64, 64) + conv(56, 1, 64, 256))
    )
    layer2 = (conv(56, 1, 256, 128) + conv(28, 3, 128, 128) + conv(28, 1, 128, 512) + conv(28, 1, 256, 512)) + 3 * (
        conv(28, 1, 512, 128) + conv(28, 3, 128, 128) + conv(28, 1, 128, 512)
    )
    layer3 = (conv(28, 1, 512, 256) + conv(14, 3, 256, 256) + conv(14, 1, 256, 1024) + conv(14, 1, 512, 1024)) + 5 * (
        conv(14, 1, 1024, 256) + conv(14, 3, 256, 256) + conv(14, 1, 256, 1024)
    )
    layer4 = (conv(14, 1, 1024, 512) + conv(7, 3, 512, 512) + conv(7, 1, 512, 2048) + conv(7, 1, 1024, 2048)) + 2 * (
        conv(7, 1, 2048, 512) + conv(7, 3, 512, 512) + conv(7, 1, 512, 2048)
    )
    return first, first + layer1 + layer2 + layer3 + layer4 + 2048 * 1000


def resnet18_macs_at_64() -> tuple[int, int]:
    first = conv(32, 7, 3, 64)
    layer1 = 4 * conv(16, 3, 64, 64)
    layer2 = conv(8, 3, 64, 128) + conv(8, 1, 64, 128) + 3 * conv(8, 3, 128, 128)
    layer3 = conv(4, 3, 128, 256) + conv(4, 1, 128, 256) + 3 * conv(4, 3, 256, 256)
    layer4 = conv(2, 3, 256, 512) + conv(2, 1, 256, 512) + 3 * conv(2, 3, 512, 512)
    return first, first + layer1 + layer2 + layer3 + layer4 + 512 * 10


def step_flops(first: int, macs: int) -> int:
    """Forward, the weights' gradients and the inputs' gradients, the image's own left out."""
    return 2 * macs + 2 * macs + 2 * (macs - first)


def test_resnet50_at_224_is_the_known_4_09_gmacs() -> None:
    first, macs = resnet50_macs()
    assert macs == 4_089_184_256
    assert compute_flops_per_image(50, 224, 1000) == step_flops(first, macs)


def test_resnet18_hand_calculation_equals_the_counter() -> None:
    workload = ResNet(batch_size=2).build()
    model = workload.build_model()
    with FlopCounterMode(display=False) as counter:
        compute_loss(workload, model, workload.make_batch(torch.Generator().manual_seed(0))).backward()
    by_hand = step_flops(*resnet18_macs_at_64())
    assert counter.get_total_flops() == 2 * by_hand
    assert workload.model_flops_per_unit == by_hand


@pytest.mark.parametrize("image_size", [32, 45])  # 45 halves unevenly at every stage
def test_resnet50_closed_form_equals_the_counter(image_size: int) -> None:
    workload = ResNet(depth=50, batch_size=2, image_size=image_size, classes=7).build()
    model = workload.build_model()
    with FlopCounterMode(display=False) as counter:
        compute_loss(workload, model, workload.make_batch(torch.Generator().manual_seed(0))).backward()
    assert counter.get_total_flops() == 2 * compute_flops_per_image(50, image_size, 7)


@pytest.mark.parametrize(("depth", "count"), [(18, 8), (50, 16)])
def test_blocks_exist(depth: int, count: int) -> None:
    workload = ResNet(depth=depth).build()
    with torch.device("meta"):
        model = workload.build_model()
    names = workload.blocks(model)
    assert len(names) == count
    assert len({type(model.get_submodule(name)) for name in names}) == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"depth": 34}, "depth must be one of 18, 50, got 34"),
        ({"image_size": 16}, "image_size must be at least 32, got 16"),
        ({"batch_size": 1, "image_size": 32}, "batch norm"),
        ({"classes": 1}, "classes must be at least 2"),
    ],
)
def test_bad_parameters(parameters: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ResNet(**parameters).build()
