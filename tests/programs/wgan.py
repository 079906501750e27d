"""A Wasserstein GAN: five steps of the critic for one of the generator."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32))
critic = nn.Sequential(nn.Linear(32, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
generator_optimizer = torch.optim.RMSprop(generator.parameters(), lr=5e-4)
critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
for step in range(args.steps):
    for _ in range(5):
        critic_optimizer.zero_grad()
        real, fake = torch.randn(32, 32), generator(torch.randn(32, 8)).detach()
        critic_loss = critic(fake).mean() - critic(real).mean()
        critic_loss.backward()
        critic_optimizer.step()
        with torch.no_grad():
            for parameter in critic.parameters():
                parameter.clamp_(-0.05, 0.05)
    generator_optimizer.zero_grad()
    generator_loss = -critic(generator(torch.randn(32, 8))).mean()
    generator_loss.backward()
    generator_optimizer.step()
    print(f"step {step} {critic_loss.item().hex()} {generator_loss.item().hex()}", flush=True)
