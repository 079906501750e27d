"""A GRU encoder and decoder of token sequences, in batches of similar lengths."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

PAD = 0


class SequencePairs(nn.Module):
    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.encoder, self.decoder = nn.GRU(width, width, batch_first=True), nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        _, state = self.encoder(self.tokens(source))
        decoded, _ = self.decoder(self.tokens(target), state)
        return self.head(decoded)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--vocabulary", type=int, default=800)
    args = parser.parse_args()

    torch.manual_seed(0)
    lengths = torch.randint(6, 21, (args.batch * 40,)).sort().values.tolist()
    sentences = [torch.randint(1, args.vocabulary, (length,)) for length in lengths]
    batches = [
        pad_sequence(sentences[first : first + args.batch], batch_first=True, padding_value=PAD)
        for first in range(0, len(sentences), args.batch)
    ]
    order = torch.randint(0, len(batches), (args.steps,)).tolist()
    model = SequencePairs(args.vocabulary, args.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        tokens = batches[order[step]]
        logits = model(tokens, tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
