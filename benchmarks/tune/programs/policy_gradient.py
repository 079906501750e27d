"""REINFORCE on a batch of point-mass environments."""

import argparse

import torch
from torch import Tensor, nn
from torch.distributions import Normal


def compute_returns(rewards: Tensor, discount: float) -> Tensor:
    """Discounted returns of (time, environments)."""
    length = len(rewards)
    ages = torch.arange(length)
    weights = (discount ** (ages[None, :] - ages[:, None]).clamp(min=0).float()).triu()
    return weights @ rewards


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--environments", type=int, default=64)
    parser.add_argument("--horizon", type=int, default=20)
    parser.add_argument("--width", type=int, default=256)
    args = parser.parse_args()

    torch.manual_seed(0)
    policy = nn.Sequential(
        nn.Linear(4, args.width), nn.Tanh(), nn.Linear(args.width, args.width), nn.Tanh(), nn.Linear(args.width, 2)
    )
    log_std = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.Adam([*policy.parameters(), log_std], lr=1e-3, fused=True)
    for step in range(args.steps):
        place, speed = torch.randn(args.environments, 2), torch.zeros(args.environments, 2)
        states, actions, rewards = [], [], []
        with torch.no_grad():
            for _ in range(args.horizon):
                state = torch.cat((place, speed), 1)
                action = Normal(policy(state), log_std.exp()).sample()
                speed = 0.9 * speed + 0.1 * action
                place = place + 0.1 * speed
                states.append(state)
                actions.append(action)
                rewards.append(-place.square().sum(1))
        returns = compute_returns(torch.stack(rewards), 0.97)
        advantages = (returns - returns.mean(1, keepdim=True)) / (returns.std() + 1e-6)
        means = policy(torch.cat(states))
        log_probabilities = Normal(means, log_std.exp()).log_prob(torch.cat(actions)).sum(1)
        loss = -(log_probabilities * advantages.flatten()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: return {returns[0].mean().item():.3f}")


if __name__ == "__main__":
    main()
