"""Splits `gpt` over ranks: tensor parallelism of attention heads, MLP and vocabulary.

Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3; Korthikanti et al., Reducing Activation Recomputation in Large
Transformer Models, arXiv 2205.05198, section 4.2.
"""

from torch.distributed.tensor import Placement, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

from perfkit.core.errors import UnavailableError
from perfkit.workloads.workload import TensorParallelSplit


def split_gpt(heads: int, seq_len: int, split: TensorParallelSplit) -> dict[str, ParallelStyle]:
    """The plan for `parallelize_module`; `UnavailableError` where heads or tokens do not divide by the ranks."""
    if heads % split.ranks:
        raise UnavailableError(
            f"{heads} heads are not divisible by {split.ranks} ranks; {split.describe_fitting(heads)}",
            id="skip.indivisible",
        )
    if split.sequence and seq_len % split.ranks:
        raise UnavailableError(
            f"sequences of {seq_len} tokens are not divisible by {split.ranks} ranks; "
            f"{split.describe_fitting(heads, seq_len)}, or sp=false",
            id="skip.indivisible",
        )
    # Activations are (batch, time, width); between layers whole, or split along time.
    between: Placement = Shard(1) if split.sequence else Replicate()
    plan: dict[str, ParallelStyle] = {
        # The table is also the head's matrix, so that both are split by tokens of the vocabulary.
        "tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
        "blocks.*.attention.qkv": ColwiseParallel(input_layouts=between),
        "blocks.*.attention.out": RowwiseParallel(output_layouts=between),
        "blocks.*.mlp.0": ColwiseParallel(input_layouts=between),
        "blocks.*.mlp.2": RowwiseParallel(output_layouts=between),
        "head": ColwiseParallel(
            input_layouts=between,
            output_layouts=Shard(-1) if split.loss else Replicate(),
            use_local_output=not split.loss,
        ),
    }
    if split.sequence:
        # Positions are (time, width).
        plan["positions"] = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
        plan |= {norm: SequenceParallel() for norm in ("blocks.*.norm1", "blocks.*.norm2", "norm")}
    return plan
