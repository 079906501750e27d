"""Training in a thread that is not the main one."""

import argparse
import threading

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--threads", type=int, default=1, help="each trains a model of its own, one after the other")
args = parser.parse_args()


def train(number):
    generator = torch.Generator().manual_seed(args.seed + number)
    model = nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(args.steps):
        loss = model(torch.randn(16, 32, generator=generator)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"thread {number} step {step} {loss.item().hex()}", flush=True)


torch.manual_seed(args.seed)
for number in range(args.threads):
    thread = threading.Thread(target=train, args=(number,))
    thread.start()
    thread.join()
