"""A training that ends early, in the way that is asked for."""

import argparse
import os
import signal
import sys

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--at", type=int, default=20, help="the step in which it ends")
parser.add_argument("--how", default="raise", help="raise, exit:CODE, message, oom, sigint, sigterm, kill, wait")
parser.add_argument("--handler", action="store_true", help="handle SIGTERM as trainings that save a checkpoint do")
args = parser.parse_args()


def save_and_leave(number, frame):
    print("checkpoint saved", flush=True)
    sys.exit(7)


def end():
    how, _, value = args.how.partition(":")
    if how == "raise":
        raise ValueError(f"the loss of step {args.at} is of no use: ünïcode")
    if how == "exit":
        sys.exit(int(value))
    if how == "message":
        sys.exit("enough of this")
    if how == "oom":
        torch.empty(1 << 60, dtype=torch.uint8)
    if how == "wait":
        signal.pause()
    os.kill(os.getpid(), {"sigint": signal.SIGINT, "sigterm": signal.SIGTERM, "kill": signal.SIGKILL}[how])


def main():
    if args.handler:
        signal.signal(signal.SIGTERM, save_and_leave)
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        loss = model(torch.randn(16, 32)).square().mean()
        if step == args.at:
            end()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {loss.item().hex()}", flush=True)
    print("trained to the end", file=sys.stderr)


if __name__ == "__main__":
    main()
