"""Closed forms of what a rank holds of the training state when `gpt` is trained on N ranks, in bytes.

Rajbhandari et al. 2020, "ZeRO" (arXiv 1910.02054), figure 1, count 2 + 2 + 12 bytes a parameter: 16-bit parameters and
gradients, fp32 master weights and two moments. Whole, they are 16P; stage 1 holds 4P + 12P/N, stage 2 2P + 14P/N and
stage 3 16P/N. perfkit trains fp32 parameters: 4 + 4 + 8, which is 16P as well, and 8P + 8P/N for stage 1. `zero2` and
`zero3` are FSDP2, which shards parameters in both: 16P/N, and beside them what is whole for a while. `zero2` gathers
all parameters for forward and keeps them until backward is done (4P); `zero3` gathers one block at a time beside the
root, which holds what is in no block (token and position embedding, final norm).
"""

from benchmarks.gpt_memory import FP32, block_parameters
from perfkit.workloads.gpt import Shape


def parameter_tensors(shape: Shape) -> int:
    """Adam keeps a step counter of 4 bytes for each."""
    return 12 * shape.layers + 4


def held(technique: str, shape: Shape, ranks: int) -> dict[str, int]:
    """Parameters, gradients when all are there, and optimizer state of one rank, by the account's categories.

    `technique` is `ddp`, `zero1`, `zero2` or `zero3`. Exact where sizes divide by the number of ranks, as those of
    gpt's smallest size do by two: `zero1` deals out whole tensors, FSDP2 slices each.
    """
    whole = FP32 * shape.parameters
    counters = FP32 * parameter_tensors(shape)
    if technique == "ddp":
        return {"parameter": whole, "gradient": whole, "optimizer state": 2 * whole + counters}
    if technique == "zero1":
        state = (2 * whole + counters) // ranks
        return {"parameter": whole, "gradient": whole, "optimizer state": state}
    shard = whole // ranks
    return {"parameter": shard, "gradient": shard, "optimizer state": 2 * shard + counters}


def gathered(technique: str, shape: Shape) -> int:
    """The most bytes of parameters that are whole at one time, beside the shards."""
    block = FP32 * block_parameters(shape)
    whole = FP32 * shape.parameters
    return {"ddp": 0, "zero1": 0, "zero2": whole, "zero3": whole - (shape.layers - 1) * block}[technique]


def all_gather(shape: Shape) -> int:
    """Bytes of an all-gather's output for a block; a reduce-scatter's input is as large.

    How many of them there are at a time is not a matter of theory but of time: one in use and one that is prefetched,
    and those that the backend has not let go of.
    """
    return FP32 * block_parameters(shape)
