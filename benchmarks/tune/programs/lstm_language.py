"""A language model with two LSTM layers."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        x, _ = self.lstm(x)
        return self.head(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=2000)
    args = parser.parse_args()

    torch.manual_seed(0)
    text = torch.randint(0, args.vocabulary, (args.batch, 20_000))
    model = LanguageModel(args.vocabulary, args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    place = 0
    for step in range(args.steps):
        window = text[:, place : place + args.length + 1]
        place = (place + args.length) % (text.shape[1] - args.length - 1)
        logits = model(window[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
