"""Classification of the nodes of a random graph by passing messages."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Layer(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(before, after), nn.Linear(before, after, bias=False)

    def forward(self, x: Tensor, edges: Tensor, degree: Tensor) -> Tensor:
        source, target = edges
        messages = self.others(x)
        gathered = torch.zeros_like(messages).index_add(0, target, messages[source])
        return self.own(x) + gathered / degree


class GraphNetwork(nn.Module):
    def __init__(self, features: int, width: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList((Layer(features, width), Layer(width, width), Layer(width, classes)))

    def forward(self, x: Tensor, edges: Tensor, degree: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = F.relu(layer(x, edges, degree))
        return self.layers[-1](x, edges, degree)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--edges", type=int, default=12_000)
    parser.add_argument("--width", type=int, default=96)
    args = parser.parse_args()

    torch.manual_seed(0)
    edges = torch.randint(0, args.nodes, (2, args.edges))
    degree = torch.bincount(edges[1], minlength=args.nodes).clamp(min=1).unsqueeze(1).float()
    features = torch.randn(args.nodes, 64)
    labels = torch.randint(0, 12, (args.nodes,))
    train = torch.rand(args.nodes) < 0.6
    rows = train.nonzero().squeeze(1)
    model = GraphNetwork(64, args.width, 12)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    for step in range(args.steps):
        logits = model(features, edges, degree)
        loss = F.cross_entropy(logits[rows], labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
