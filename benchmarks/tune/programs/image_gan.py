"""A generative adversarial network of small images."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


def build_generator(latent: int, width: int) -> nn.Module:
    return nn.Sequential(
        nn.ConvTranspose2d(latent, 2 * width, 4, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.ConvTranspose2d(width, 1, 4, 2, 1),
        nn.Tanh(),
    )


def build_critic(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(width, 2 * width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(2 * width, 1, 4),
        nn.Flatten(0),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(0)
    images = torch.rand(4000, 1, 16, 16) * 2 - 1
    generator, critic = build_generator(64, args.width), build_critic(args.width)
    generator_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
    for step in range(args.steps):
        real = images[torch.randint(0, len(images), (args.batch,))]
        noise = torch.randn(args.batch, 64, 1, 1)
        fake = generator(noise)
        critic_loss = F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()

        critic.requires_grad_(False)
        generator_loss = F.softplus(-critic(fake)).mean()
        generator_optimizer.zero_grad()
        generator_loss.backward()
        generator_optimizer.step()
        critic.requires_grad_(True)
        if step % 50 == 49:
            print(f"step {step}: losses {critic_loss.item():.3f}, {generator_loss.item():.3f}")


if __name__ == "__main__":
    main()
