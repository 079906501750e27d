"""Pre-training, then fine-tuning of the same body under another head with an optimizer of its own."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--pretrain", type=int, default=20, help="steps of the first phase")
parser.add_argument("--finetune", type=int, default=20, help="steps of the second phase")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()


def train(model, optimizer, classes, phase, steps):
    for step in range(steps):
        inputs, labels = torch.randn(16, 32), torch.randint(0, classes, (16,))
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"{phase} {step} {loss.item().hex()}", flush=True)


torch.manual_seed(args.seed)
body = nn.Sequential(nn.Linear(32, 64), nn.ReLU())
pretrained = nn.Sequential(body, nn.Linear(64, 20))
train(pretrained, torch.optim.AdamW(pretrained.parameters(), lr=1e-3), 20, "pretrain", args.pretrain)
finetuned = nn.Sequential(body, nn.Linear(64, 2))
train(finetuned, torch.optim.SGD(finetuned.parameters(), lr=1e-2), 2, "finetune", args.finetune)
