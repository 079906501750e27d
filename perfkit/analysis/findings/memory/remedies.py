"""Remedies for each category: perfkit's techniques and what torch and others offer, in the order to try them in."""

from typing import NamedTuple

from perfkit.allocations import (
    ACTIVATION,
    AUTOCAST,
    COMMUNICATION_BUFFER,
    GRADIENT,
    OPTIMIZER_STATE,
    PARAMETER,
    RECOMPUTED,
    TEMPORARY,
    UNSHARDED_PARAMETER,
)


class Remedy(NamedTuple):
    """What to do and by which API; `technique` is perfkit's, "" where it has none.

    It is of no use where a technique in `unless` is on, which does more or does not go with it. `on_cpu` is what to do
    instead where the memory is the host's; without an API (`api_on_cpu`) it is no advice for somebody's own loop.
    """

    how: str
    technique: str = ""
    unless: tuple[str, ...] = ()
    on_cpu: str = ""
    api_on_cpu: bool = True


SMALLER_BATCH = Remedy("take smaller batches and accumulate their gradients")

SCORES = (
    Remedy("never write the scores: F.scaled_dot_product_attention with its flash or efficient backend", "flash"),
    Remedy("recompute attention in backward: torch.utils.checkpoint", "ckpt"),
)
LOGITS = (
    Remedy(
        "compute the loss in chunks of the vocabulary or sequence, fused with the last layer (Liger Kernel's "
        "LigerFusedLinearCrossEntropyLoss, torchtune's LinearCrossEntropyLoss, cut-cross-entropy)"
    ),
    Remedy("let the compiler fuse log-softmax and loss: torch.compile", "compile"),
    SMALLER_BATCH,
)
ONE_AT_A_TIME = Remedy("update one tensor at a time (foreach=False)")
FUSED_UPDATE = Remedy(
    "update in place with a fused optimizer, such as AdamW(fused=True), or one tensor at a time (foreach=False)"
)
SHORTER_HISTORY = Remedy(
    "keep fewer directions: LBFGS(history_size=10), 100 by default, each of two vectors as large as all parameters"
)
EIGHT_BITS = Remedy("keep it in 8 bits: torchao.optim.AdamW8bit, bitsandbytes.optim.AdamW8bit")
HELD_IN_FORWARD = Remedy("free gradients before forward: optimizer.zero_grad(set_to_none=True)")

REMEDIES: dict[str, tuple[Remedy, ...]] = {
    ACTIVATION: (
        Remedy("recompute blocks in backward: torch.utils.checkpoint with use_reentrant=False", "ckpt"),
        Remedy("compute in 16 bits: torch.autocast", "amp"),
        Remedy(
            "keep them on the host: torch.autograd.graph.save_on_cpu(pin_memory=True)",
            "offload:what=activations",
            on_cpu="keep them on disk: torch.autograd.graph.saved_tensors_hooks",
        ),
        SMALLER_BATCH,
    ),
    RECOMPUTED: (Remedy("checkpoint smaller blocks, so that less is recomputed at a time"), SMALLER_BATCH),
    OPTIMIZER_STATE: (
        Remedy("deal it out over ranks: ZeroRedundancyOptimizer, or FSDP2's fully_shard", "zero1", ("zero2", "zero3")),
        Remedy(
            "keep it off the device between updates: torchao's CPUOffloadOptimizer, DeepSpeed's offload_optimizer",
            "offload:what=optimizer",
            ("zero2:offload=cpu", "zero3:offload=cpu"),
            on_cpu="keep it on disk between updates",
            api_on_cpu=False,
        ),
        EIGHT_BITS,
    ),
    GRADIENT: (
        Remedy("deal them out over ranks: FSDP2's fully_shard(reshard_after_forward=False)", "zero2", ("zero3",)),
        Remedy(
            "update each parameter in backward and free its gradient: Tensor.register_post_accumulate_grad_hook "
            "(without accumulation or clipping by the global norm)"
        ),
    ),
    PARAMETER: (
        Remedy("deal them out over ranks: FSDP2's fully_shard(reshard_after_forward=True)", "zero3"),
        Remedy(
            "keep blocks off the device until they run",
            "offload:what=parameters",
            ("zero1", "zero2", "zero3"),
            on_cpu="keep blocks on disk until they run",
            api_on_cpu=False,
        ),
        Remedy(
            "keep them in bf16: model.to(torch.bfloat16), with an optimizer that rounds stochastically "
            "(torchao.optim's bf16_stochastic_round=True)"
        ),
    ),
    AUTOCAST: (
        Remedy(
            "keep the weights in the dtype they are used in: bf16 parameters, or FSDP2's "
            "MixedPrecisionPolicy(param_dtype=torch.bfloat16)"
        ),
        Remedy("cast at every use instead: torch.autocast(cache_enabled=False), for time"),
    ),
    UNSHARDED_PARAMETER: (
        Remedy(
            "free parameters after a block's forward: fully_shard(reshard_after_forward=True)",
            "zero3",
            ("zero1", "ddp"),
        ),
        Remedy("call fully_shard on smaller modules, and prefetch fewer of them"),
    ),
    COMMUNICATION_BUFFER: (
        Remedy("let gradients be views of the buckets: DistributedDataParallel(gradient_as_bucket_view=True)"),
        Remedy("use smaller buckets (bucket_cap_mb) or smaller modules for fully_shard"),
    ),
    TEMPORARY: (
        Remedy("let the compiler fuse ops, so that results in between are never written: torch.compile", "compile"),
        SMALLER_BATCH,
    ),
}


def is_technique_on(wanted: str, techniques: tuple[str, ...]) -> bool:
    """Whether a technique, with the parameters it is named with, is among others (`offload:what=optimizer:to=disk`)."""
    name, *parameters = wanted.split(":")
    for technique in techniques:
        given, *settings = technique.split(":")
        if given == "offload" and not any(setting.startswith("what=") for setting in settings):
            settings.append("what=activations")
        if given == name and set(parameters) <= set(settings):
            return True
    return False
