"""Steps of which the twelfth is long, an evaluation after the thirteenth that keeps its outputs, and a still longer
step after all that is recorded."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))
optimizer = torch.optim.AdamW(model.parameters())
LONG = {12: 16_000, 39: 64_000}

for step in range(1, 41):
    model(torch.randn(LONG.get(step, 64), 512)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 13:
        model.eval()
        with torch.no_grad():
            outputs = torch.cat([model(torch.randn(8_192, 512)) for _ in range(20)])
        del outputs
        model.train()
