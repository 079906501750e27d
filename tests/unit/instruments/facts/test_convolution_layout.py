"""Layouts of convolutions' outputs."""

import torch
from torch import nn

from perfkit.instruments.facts.convolution_layout import count_convolution_layouts

IMAGES = torch.zeros(2, 3, 8, 8)


def seen(model: nn.Module) -> dict[str, float]:
    with count_convolution_layouts(model) as found:
        model(IMAGES)
    model(IMAGES)  # after it nothing is counted
    return found


def test_outputs_with_channels_last_are_told_from_others() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3))
    assert seen(model) == {"convolutions": 2.0, "channels_last_convolutions": 0.0}
    model.to(memory_format=torch.channels_last)
    assert seen(model) == {"convolutions": 2.0, "channels_last_convolutions": 2.0}


def test_nothing_is_found_of_a_model_without_them() -> None:
    assert seen(nn.Sequential(nn.Flatten(), nn.Linear(192, 4))) == {}


class Pair(nn.Conv2d):
    """A convolution that hands its input on beside its output."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        return super().forward(x), x


def test_an_output_that_is_no_tensor_of_images_is_not_counted() -> None:
    assert seen(Pair(3, 4, 3)) == {}
