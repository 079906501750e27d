"""A recommender: user and item embeddings ranked against sampled negatives."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Ranker(nn.Module):
    def __init__(self, users: int, items: int, width: int) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(users, width), nn.Embedding(items, width)
        self.tower = nn.Sequential(nn.Linear(2 * width, 2 * width), nn.ReLU(), nn.Linear(2 * width, 1))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores of (batch,) users and (batch, candidates) items."""
        user = self.users(users).unsqueeze(1).expand(-1, items.shape[1], -1)
        return self.tower(torch.cat((user, self.items(items)), -1)).squeeze(-1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--negatives", type=int, default=15)
    parser.add_argument("--width", type=int, default=64)
    args = parser.parse_args()

    torch.manual_seed(0)
    users, items = 3000, 2000
    clicks = torch.stack((torch.randint(0, users, (100_000,)), torch.randint(0, items, (100_000,))), 1)
    model = Ranker(users, items, args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        user, positive = clicks[torch.randint(0, len(clicks), (args.batch,))].T
        negatives = torch.randint(0, items, (args.batch, args.negatives))
        scores = model(user, torch.cat((positive.unsqueeze(1), negatives), 1))
        loss = F.cross_entropy(scores, torch.zeros(args.batch, dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
