"""DistributedDataParallel with a DistributedSampler: `torchrun --nproc-per-node 2 ddp.py`, or alone as one rank."""

import argparse
import gc
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
    os.environ.setdefault(name, value)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(args.seed)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
count, tensors = sum(p.numel() for p in model.parameters()), len(list(model.parameters()))
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
generator = torch.Generator().manual_seed(args.seed)
dataset = TensorDataset(torch.randn(512, 64, generator=generator), torch.randint(0, 10, (512,), generator=generator))
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=16, sampler=sampler)
if rank == 0:
    print("parameters", count, "in", tensors, "tensors", flush=True)
step = epoch = 0
while step < args.steps:
    sampler.set_epoch(epoch)
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        # One write, so that the lines of two ranks do not mix.
        os.write(1, f"rank {rank} step {step} {loss.item().hex()}\n".encode())
        step += 1
        if step == args.steps:
            break
    epoch += 1
dist.destroy_process_group()
# The group's threads are joined when its last owner goes. One that lets go of its last work while the interpreter ends
# takes the process down (SIGABRT: torch 2.13 with gloo, on a busy machine one run in twelve).
del model, loss, optimizer
gc.collect()
