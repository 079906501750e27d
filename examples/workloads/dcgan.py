"""torch's DCGAN example: two models, two optimizers and a step of its own."""

import torch
import torch.nn.functional as F
from torch import nn

import perfkit


def generator() -> nn.Module:
    return nn.Sequential(
        nn.Sequential(nn.ConvTranspose2d(16, 64, 4, 1, 0, bias=False), nn.BatchNorm2d(64), nn.ReLU()),
        nn.Sequential(nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
        nn.Sequential(nn.ConvTranspose2d(32, 1, 4, 2, 1, bias=False), nn.Tanh()),
    )


def discriminator() -> nn.Module:
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2)),
        nn.Sequential(nn.Conv2d(32, 64, 4, 2, 1, bias=False), nn.BatchNorm2d(64), nn.LeakyReLU(0.2)),
        nn.Sequential(nn.Conv2d(64, 1, 4, 1, 0, bias=False), nn.Flatten(0)),
    )


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.5, 0.999))


def error(scores: torch.Tensor, label: float) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, label))


def step(training: perfkit.Training, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    net_g, net_d = training.models["generator"], training.models["discriminator"]

    net_d.zero_grad()
    on_real = error(net_d(batch["real"]), 1.0)
    training.backward(on_real)
    fake = net_g(batch["noise"])
    on_fake = error(net_d(fake.detach()), 0.0)
    training.backward(on_fake)
    training.optimizers["discriminator"].step()

    net_g.zero_grad()
    fooled = error(net_d(fake), 1.0)
    training.backward(fooled)
    training.optimizers["generator"].step()
    return {"discriminator": on_real + on_fake, "generator": fooled}


def build(batch_size: int = 16) -> perfkit.Workload:
    def make_batch(generator: torch.Generator) -> dict[str, torch.Tensor]:
        wave = torch.sin(torch.arange(16) * 0.8 + 6.28 * torch.rand(batch_size, 1, 1, 1, generator=generator))
        noise = torch.randn(batch_size, 16, 1, 1, generator=generator)
        return {"real": wave.expand(batch_size, 1, 16, 16).contiguous(), "noise": noise}

    return perfkit.Workload(
        name="dcgan",
        unit="samples",
        units_per_batch=batch_size,
        build_model=lambda: {"generator": generator(), "discriminator": discriminator()},
        build_optimizer=lambda models: {name: adam(model) for name, model in models.items()},
        make_batch=make_batch,
        step=step,
        blocks=lambda models: tuple(f"{name}.{index}" for name in models for index in range(2)),
    )
