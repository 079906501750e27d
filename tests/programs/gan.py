"""A DCGAN as in torch's own tutorial: discriminator and generator take turns, each with an optimizer of its own."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
args = parser.parse_args()
nz, ngf, ndf, batch_size, device = 16, 8, 8, 16, torch.device(args.device)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, images):
        return self.main(images)


torch.manual_seed(args.seed)
generator, discriminator = Generator().to(device), Discriminator().to(device)
parameters = [*generator.parameters(), *discriminator.parameters()]
print("parameters", sum(p.numel() for p in parameters), "in", len(parameters), "tensors")
criterion = nn.BCELoss()
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
dataset = TensorDataset(torch.rand(batch_size * args.steps, 1, 16, 16) * 2 - 1)
for i, (real,) in enumerate(DataLoader(dataset, batch_size=batch_size, shuffle=True)):
    discriminator.zero_grad()
    real = real.to(device)
    label = torch.full((batch_size,), 1.0, device=device)
    real_error = criterion(discriminator(real).view(-1), label)
    real_error.backward()
    fake = generator(torch.randn(batch_size, nz, 1, 1, device=device))
    label.fill_(0.0)
    fake_error = criterion(discriminator(fake.detach()).view(-1), label)
    fake_error.backward()
    optimizer_d.step()

    generator.zero_grad()
    label.fill_(1.0)
    generator_error = criterion(discriminator(fake).view(-1), label)
    generator_error.backward()
    optimizer_g.step()
    print(f"step {i} {(real_error + fake_error).item().hex()} {generator_error.item().hex()}", flush=True)
