"""Remedies for each category: perfkit's techniques and APIs of torch and others, in the order to try them."""

from typing import NamedTuple

from perfkit.core.allocations import (
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
    """An instruction with its API; `technique` is perfkit's, "" where it has none.

    It does not apply where a technique in `unless` is on, which does more or excludes it. `on_cpu` replaces it where
    the memory is the host's; without an API (`api_on_cpu`) it is no advice for an attached loop. `trains` is True for
    what helps training alone, False for what helps inference alone, None for what helps both.
    """

    how: str
    technique: str = ""
    unless: tuple[str, ...] = ()
    on_cpu: str = ""
    api_on_cpu: bool = True
    trains: bool | None = None


SMALLER_BATCH = Remedy("use smaller batches and accumulate their gradients", trains=True)
SMALLER_INPUT = Remedy("use smaller batches or shorter sequences", trains=False)
INFERENCE_MODE = Remedy(
    "run the model under torch.inference_mode(), so that nothing is kept for backward", trains=False
)

SCORES = (
    Remedy("call F.scaled_dot_product_attention with its flash or efficient backend", "flash"),
    Remedy("recompute attention in backward with torch.utils.checkpoint", "ckpt", trains=True),
)
LOGITS = (
    Remedy(
        "compute the loss in chunks of the vocabulary or sequence, fused with the last layer (Liger Kernel's "
        "LigerFusedLinearCrossEntropyLoss, torchtune's LinearCrossEntropyLoss, cut-cross-entropy)",
        "fused_ce",
        trains=True,
    ),
    Remedy("fuse log-softmax and loss with torch.compile", "compile"),
    Remedy("compute logits of the last position alone", trains=False),
    SMALLER_BATCH,
    SMALLER_INPUT,
)
ONE_AT_A_TIME = Remedy("update one tensor at a time (foreach=False)")
FUSED_UPDATE = Remedy(
    "use a fused optimizer such as AdamW(fused=True), or update one tensor at a time (foreach=False)", "optim:use=fused"
)
SHORTER_HISTORY = Remedy(
    "keep fewer directions with LBFGS(history_size=10): each holds two vectors of all parameters (default: 100)"
)
EIGHT_BITS = Remedy(
    "keep it in 8 bits with torchao.optim.AdamW8bit or bitsandbytes.optim.AdamW8bit", "optim:use=adamw8bit"
)
HELD_IN_FORWARD = Remedy("free gradients before forward with optimizer.zero_grad(set_to_none=True)")

REMEDIES: dict[str, tuple[Remedy, ...]] = {
    ACTIVATION: (
        INFERENCE_MODE,
        Remedy(
            "recompute blocks in backward with torch.utils.checkpoint.checkpoint(use_reentrant=False)",
            "ckpt",
            trains=True,
        ),
        Remedy("compute in 16 bits with torch.autocast", "amp"),
        Remedy(
            "offload them to CPU memory with torch.autograd.graph.save_on_cpu(pin_memory=True)",
            "offload:what=activations",
            on_cpu="offload them to disk with torch.autograd.graph.saved_tensors_hooks",
            trains=True,
        ),
        SMALLER_BATCH,
        SMALLER_INPUT,
    ),
    RECOMPUTED: (
        Remedy("checkpoint smaller blocks with torch.utils.checkpoint, so that less is recomputed at a time"),
        SMALLER_BATCH,
    ),
    OPTIMIZER_STATE: (
        Remedy("shard it over ranks with ZeroRedundancyOptimizer or FSDP2's fully_shard", "zero1", ("zero2", "zero3")),
        Remedy(
            "offload it between updates with torchao's CPUOffloadOptimizer or DeepSpeed's offload_optimizer",
            "offload:what=optimizer",
            ("zero2:offload=cpu", "zero3:offload=cpu"),
            on_cpu="offload it to disk between updates",
            api_on_cpu=False,
        ),
        EIGHT_BITS,
    ),
    GRADIENT: (
        Remedy("shard them over ranks with FSDP2's fully_shard(reshard_after_forward=False)", "zero2", ("zero3",)),
        Remedy(
            "update each parameter in backward and free its gradient with Tensor.register_post_accumulate_grad_hook "
            "(without accumulation or clipping by the global norm)",
            "optim_in_backward",
        ),
    ),
    PARAMETER: (
        Remedy("shard them over ranks with FSDP2's fully_shard(reshard_after_forward=True)", "zero3"),
        Remedy(
            "offload blocks until they run",
            "offload:what=parameters",
            ("zero1", "zero2", "zero3"),
            on_cpu="offload blocks to disk until they run",
            api_on_cpu=False,
        ),
        Remedy(
            "keep them in bf16 with model.to(torch.bfloat16) and an optimizer that rounds stochastically "
            "(torchao.optim's bf16_stochastic_round=True)",
            "bf16",
            trains=True,
        ),
        Remedy(
            "keep them in 16 bits with model.to(torch.bfloat16), or quantize them (torchao.quantization.quantize_)",
            trains=False,
        ),
    ),
    AUTOCAST: (
        Remedy(
            "gather sharded weights in bf16 with FSDP2's MixedPrecisionPolicy(param_dtype=torch.bfloat16) instead of "
            "autocast",
            "zero3:param_dtype=bf16",
        ),
        Remedy("keep weights in the dtype they are used in: bf16 parameters", "bf16"),
        Remedy("cast at every use with torch.autocast(cache_enabled=False), which costs time"),
    ),
    UNSHARDED_PARAMETER: (
        Remedy(
            "free parameters after a block's forward with fully_shard(reshard_after_forward=True)",
            "zero3",
            ("zero1", "ddp"),
        ),
        Remedy("call fully_shard on smaller modules, and prefetch fewer of them"),
    ),
    COMMUNICATION_BUFFER: (
        Remedy("make gradients views of the buckets with DistributedDataParallel(gradient_as_bucket_view=True)"),
        Remedy("use smaller buckets (bucket_cap_mb) or smaller modules for fully_shard"),
    ),
    TEMPORARY: (
        Remedy("fuse ops with torch.compile, so that intermediate results are never written", "compile"),
        SMALLER_BATCH,
        SMALLER_INPUT,
    ),
}


def is_technique_on(wanted: str, techniques: tuple[str, ...]) -> bool:
    """True if a technique with the given parameters is among others (`offload:what=optimizer:to=disk`)."""
    name, *parameters = wanted.split(":")
    for technique in techniques:
        base, *settings = technique.split(":")
        if base == "offload" and not any(setting.startswith("what=") for setting in settings):
            settings.append("what=activations")
        if base == name and set(parameters) <= set(settings):
            return True
    return False
