"""Deep Q-learning from a replay buffer."""

import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn


def build_network(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 6))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    args = parser.parse_args()

    torch.manual_seed(0)
    size = 20_000
    states, next_states = torch.randn(size, 64), torch.randn(size, 64)
    actions, rewards = torch.randint(0, 6, (size,)), torch.randn(size)
    network = build_network(args.width)
    target = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4, fused=True)
    for step in range(args.steps):
        picked = torch.randint(0, size, (args.batch,))
        with torch.no_grad():
            best = target(next_states[picked]).amax(1)
        wanted = rewards[picked] + 0.99 * best
        values = network(states[picked]).gather(1, actions[picked].unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(values, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            target.load_state_dict(network.state_dict())
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
