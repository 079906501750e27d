"""A script that looks at everything a script can see of how it was started, and starts a process by spawn."""

import multiprocessing
import sys
from pathlib import Path

import torch
from sibling import doubled
from torch import nn


class Payload:
    """Pickled by name, as a class of `__main__`."""

    def __init__(self, text):
        self.text = text


def answer(payload):
    return Payload(payload.text.upper()), __name__


if __name__ == "__main__":
    print("arguments", sys.argv[1:])
    print("argv[0]", Path(sys.argv[0]).name, "file", Path(__file__).name, "path[0]", Path(sys.path[0]).name)
    print("main", sys.modules["__main__"].__dict__ is globals(), __name__, __package__, __spec__)
    print("read", doubled(sys.stdin.readline().strip()))
    sys.stdout.write("no newline at the end of a write, ")
    sys.stdout.flush()
    sys.stderr.write("and this is on stderr\n")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        payload, name = pool.apply(answer, (Payload("spawned"),))
    print(payload.text, type(payload) is Payload, name)
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(10):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item().hex()}")
