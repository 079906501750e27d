"""Saves a full state dict of an FSDP2 model in rank 0: prints by how many bytes its allocator's peak grew.

`torchrun --standalone --nproc-per-node 2 fsdp_checkpoint.py FILE`
"""

import sys
from itertools import accumulate

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from perfkit.core.spec import WorkloadSpec
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.workloads.model_loss import call_loss
from perfkit.workloads.workload import draw_batches, make_optimizers
from perfkit.workloads.workload_table import load_workload

dist.init_process_group("gloo")
workload = load_workload(WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 16}), device="cpu")
model = workload.build_model()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
for block in model.blocks:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
(optimizer,) = make_optimizers(workload, model).values()
call_loss(workload, model, next(iter(draw_batches(workload, torch.Generator())))).backward()
optimizer.step()
optimizer.zero_grad()
with AllocationProfiler(ops=False) as profiler:
    saved = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        torch.save(saved, sys.argv[1])
if dist.get_rank() == 0:
    print("peak", max(accumulate(event.size for event in profiler.recorded.allocations)), flush=True)
dist.barrier()
dist.destroy_process_group()
