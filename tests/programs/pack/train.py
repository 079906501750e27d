"""`python -m pack.train`, with a relative import."""

import sys

import torch
from torch import nn

from .data import batch

print("arguments", sys.argv[1:], __name__, __package__, __spec__.name)
generator = torch.Generator().manual_seed(0)
torch.manual_seed(0)
model = nn.Linear(32, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(int(sys.argv[1])):
    loss = model(batch(generator)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} {loss.item().hex()}")
