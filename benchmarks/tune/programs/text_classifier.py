"""A transformer encoder that classifies texts, in batches of similar lengths."""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD = 0


class TextClassifier(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=PAD)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.encoder(self.tokens(tokens)).mean(1))


def encode(text: str, words: dict[str, int]) -> list[int]:
    return [words[word] for word in text.split()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    words = {f"word{index}": index + 1 for index in range(3000)}
    lengths = torch.randint(4, 13, (args.batch * 30,)).mul(8).sort().values.tolist()
    texts = [" ".join(f"word{index}" for index in torch.randint(0, 3000, (length,)).tolist()) for length in lengths]
    encoded = [encode(text, words) for text in texts]
    labels = torch.randint(0, 4, (len(texts),))
    firsts = torch.randint(0, 30, (args.steps,)).mul(args.batch).tolist()
    model = TextClassifier(3001, args.width, args.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(args.steps):
        first = firsts[step]
        batch = encoded[first : first + args.batch]
        longest = max(map(len, batch))
        tokens = torch.tensor([row + [PAD] * (longest - len(row)) for row in batch])
        loss = F.cross_entropy(model(tokens), labels[first : first + args.batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
