"""Closed forms of what a rank holds of the training state when `gpt` is trained on N ranks, in bytes.

Rajbhandari et al. 2020, "ZeRO" (arXiv 1910.02054), figure 1, count 2 + 2 + 12 bytes a parameter: 16-bit parameters and
gradients, fp32 master weights and two moments. Whole, they are 16P; stage 1 holds 4P + 12P/N, stage 2 2P + 14P/N and
stage 3 16P/N. perfkit trains fp32 parameters: 4 + 4 + 8, which is 16P as well, and 8P + 8P/N for stage 1. `zero2` and
`zero3` are FSDP2, which shards parameters in both: 16P/N, and beside them what is whole for a while. `zero2` gathers
all parameters for forward and keeps them until backward is done (4P); `zero3` gathers one block at a time beside the
root, which holds what is in no block (token and position embedding, final norm). Beside the state there are the buffers
of collectives: those of FSDP2 as torch/distributed/fsdp/_fully_shard has them (`_fsdp_collectives.py`,
`_fsdp_param_group.py`), and gloo's own copies, as these runs are on CPUs.
"""

from benchmarks.gpt_memory import FP32, INT64, RNG_STATE, Training, block_parameters, kept_by_blocks, standing
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
    return {"ddp": 0, "zero1": 0, "zero2": whole, "zero3": _root(shape) + block}[technique]


def gradients(shape: Shape, ranks: int) -> int:
    """The most bytes of gradients in FSDP2: a block's are whole until they are reduced, those of later blocks sharded.

    That is when the first block's are done, beside the final norm's whole (2h), which waits for the rest of the root.
    """
    block = FP32 * block_parameters(shape)
    return (shape.layers - 1) * block // ranks + block + FP32 * 2 * shape.width


def buffers(shape: Shape) -> int:
    """The most bytes of communication buffers in FSDP2: three times a block's.

    Forward, when a block is gathered: the all-gather's output; that of the block before, which is let go of only then,
    so that copying out of it may overlap with the next (`FSDPParamGroup.wait_for_unshard`); and gloo's own flat copy.
    Backward in `zero3`: the same of the block that is prefetched, and the input of the reduce-scatter of the block
    after, which is let go of when the next one is to be reduced (`FSDPParamGroup.post_backward`).
    """
    return 3 * FP32 * block_parameters(shape)


def moments(technique: str, training: Training, ranks: int) -> dict[str, int]:
    """Bytes on a rank at the moments of a step that can be the peak in FSDP2 (`zero2`, `zero3`).

    For blocks whose parameters outweigh what they keep for backward, explicit attention, fp32. Letters as in
    `gpt_memory`, and B the bytes of a block's parameters, N ranks. All of these hold the root's parameters whole.
    Of the shards of gradients those are there whose blocks are done, (L - 1 - i) B/N.
    """
    shape = training.shape
    last = shape.layers - 1
    base = _standing(technique, training, ranks) + _root(shape) + INT64 * training.seq_len
    if technique == "zero2":
        return {f"gathering block {last}, forward": base + last * _block(shape) + _gathering(training, last)}
    found = {f"gathering block {last}, forward": base + _gathering(training, last)}
    for index in range(last, 0, -1):
        found[f"prefetching for block {index}, backward"] = base + _prefetching(training, index, ranks)
        found[f"end of block {index}, backward"] = base + _ending(training, index, ranks)
    return found


def peak(technique: str, training: Training, ranks: int) -> tuple[str, int]:
    """The moment at which most is allocated, and how much."""
    return max(moments(technique, training, ranks).items(), key=lambda item: item[1])


def _standing(technique: str, training: Training, ranks: int) -> int:
    state = held(technique, training.shape, ranks)
    others = standing(training)
    return state["parameter"] + state["optimizer state"] + others["buffer"] + others["input"]


def _root(shape: Shape) -> int:
    """What is in no block: token and position embedding, final norm."""
    return FP32 * shape.parameters - shape.layers * _block(shape)


def _block(shape: Shape) -> int:
    return FP32 * block_parameters(shape)


def _gathering(training: Training, index: int) -> int:
    """The three buffers; what the blocks before keep, and this one's input (4 sbh)."""
    return buffers(training.shape) + kept_by_blocks(training, index) + FP32 * training.sbh


def _backward(training: Training, index: int, ranks: int) -> int:
    """What is there all through a block's backward: its parameters; the shards of later blocks' gradients; the head's
    gradient, which waits for the embedding's (4 Vh), and the final norm's (8h); the stream's gradient (4 sbh)."""
    shape = training.shape
    shards = (shape.layers - 1 - index) * _block(shape) // ranks
    waiting = FP32 * (training.head_weight + 2 * shape.width)
    return _block(shape) + shards + waiting + FP32 * training.sbh


def _prefetching(training: Training, index: int, ranks: int) -> int:
    """A block's parameters are there and those of the one before it are gathered: output, gloo's copy, and the input
    of the reduce-scatter of the block after, if there is one."""
    reducing = _block(training.shape) if index < training.shape.layers - 1 else 0
    return (
        _backward(training, index, ranks) + kept_by_blocks(training, index + 1) + 2 * _block(training.shape) + reducing
    )


def _ending(training: Training, index: int, ranks: int) -> int:
    """The backward of the product for q, k and v, the last of a block: its parameters' gradients are there but for
    that product's bias (3h) and the first norm's (2h); the prefetched output and the reduce-scatter's input.

    The gradients of q, k and v (3 x 4 sbh) and the input's (4 sbh). Of what the block kept there are its input, the
    norm's output and its statistics; its input is computed again too, where it is not kept.
    """
    shape = training.shape
    reducing = _block(shape) if index < shape.layers - 1 else 0
    whole = _block(shape) - FP32 * 5 * shape.width
    flowing = FP32 * 4 * training.sbh
    kept = kept_by_blocks(training, index) + FP32 * 2 * training.sbh + 2 * FP32 * training.sb
    generator = RNG_STATE if training.ckpt else 0
    return _backward(training, index, ranks) + _block(shape) + reducing + whole + flowing + kept + generator
