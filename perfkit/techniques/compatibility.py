"""Techniques that cannot be combined, with reasons: a table that is checked before anything runs.

A pattern is a technique's name with parameters that must have these values (`offload:what=parameters`). Listed pairs
crash, fail, average gradients twice, or cannot be verified; `docs/techniques.md` says how this was tested
(`benchmarks/compatibility.py`).
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from perfkit.core.errors import UsageError
from perfkit.techniques.base.technique import Technique, format_technique
from perfkit.techniques.optimizers.optimizers import OPTIMIZERS


class Clash(NamedTuple):
    """Two techniques that exclude each other."""

    first: str
    second: str
    reason: str


class Requirement(NamedTuple):
    """A technique that only acts together with another."""

    technique: str
    needs: str
    reason: str


_OWNS_STORAGE = "FSDP2 frees and refills the parameters' memory itself; moving it as well crashes the process"
_REDUCED_LAST = "gradients are averaged over ranks after backward, but zero2, zero3 and hsdp do so before"
_REDUCES = "ZeRO averages the gradients itself"
_CONTIGUOUS = "FSDP2 shards contiguous parameters only"
_NO_FP32_PRODUCTS = "with 16-bit matmuls, no fp32 matmuls are left for TF32"
_SAME_LAYERS = "both replace the same layers"
_MASKED = "a pruned layer's weight is the product of another one and a mask, which replacement layers do not support"
_OTHER_STAGE = "both are stages of one method; choose one"
_LOSS_IN_UPDATE = "the Trainer evaluates the loss within the update, and offload updates the parameters in parts"
_ENGINE_SCALES = "an engine scales gradients itself, with another scaler"
_TRIED_WITH_TORCH = (
    "sharded and split updates need an optimizer that treats each weight or tensor independently and accepts "
    "DTensors; only torch's own optimizers, and lion with zero1 to zero3, are known to"
)
_RELAXED = ("local_sgd", "ssp")
_WITHOUT_WAITING = "both replace the gradient exchange of every step; choose one"
_KEPT_SCALED = "unsent gradients are added to the next step's, whose scale may differ, and an overflow would persist"
# FSDP2 on one dimension of ranks, and on two.
_FULLY_SHARDED = ("zero2", "zero3", "hsdp")
_SHARDED = ("zero1", *_FULLY_SHARDED)
_OF_PLAIN_LAYERS = "tp splits only plain linear layers and embeddings"
_STAGES = "a stage leaves the model's forward early, which wrappers around the model do not support"
_ONE_PASS = (
    "torch.compile needs the model's whole forward, and a stage runs part of it; ranks with compiled blocks "
    "hung in every trial"
)
_ONE_LIST = "split and whole parameters cannot share a kernel's tensor list"
_OTHER_EXPERTS = (
    "ZeroRedundancyOptimizer sends each updated parameter to all ranks, and with ep each rank has other experts"
)
_UPDATED_TOGETHER = "it counts or scales the updates of all parameters together, and backward updates each separately"

# What is left has been: batches and how they are taken, and kernels of attention (batch, accum, seq, flash).
_UNTRIED_WITH_DEEPSPEED = (
    *("amp", "bf16", "tf32", "fp8", "ckpt", "compress", "offload", "inplace", "fused_ce", "compile", "channels_last"),
    *("optim", "optim_in_backward", "lora", "qlora", "distill", "prune", "sparse24", "qat"),
    *("tp", "pp", "cp", "ep", "data"),
)

CLASHES = (
    *(Clash("ddp", other, _REDUCES) for other in _SHARDED),
    *(Clash(first, second, _OTHER_STAGE) for first, second in combinations(_SHARDED, 2)),
    *(
        Clash(f"{stage}:engine=deepspeed", other, f"DeepSpeed has not been tried with {other}; use engine=torch")
        for stage in ("zero1", "zero2", "zero3")
        for other in _UNTRIED_WITH_DEEPSPEED
    ),
    Clash(
        "offload:what=parameters",
        "zero1",
        "ZeroRedundancyOptimizer sends every parameter to all ranks after the update, and offloaded ones have "
        "no memory (Gloo: bad address)",
    ),
    Clash("ep", "zero1", _OTHER_EXPERTS),
    Clash(
        "ep",
        "hsdp",
        "the check of hsdp needs all gradients summed over its replicas, and ep averages those of experts "
        "itself; use ep+zero2 or ep+zero3",
    ),
    Clash("ep", "tp", "no workload's tensor-parallel plan covers experts"),
    *(Clash("ep", relaxed, "ranks have different experts, which must not be averaged") for relaxed in _RELAXED),
    Clash("ep", "amp:dtype=fp16", "an overflow in one rank's experts would skip the update on that rank alone"),
    Clash("tp", "zero1", "ZeroRedundancyOptimizer sends whole tensors, and split layers are DTensors"),
    *(Clash("tp", other, _OF_PLAIN_LAYERS) for other in ("fp8", "lora", "prune", "qat", "qlora", "sparse24")),
    *(Clash("tp", other, _ONE_LIST) for other in ("amp:dtype=fp16", "optim:use=foreach", "optim:use=fused")),
    Clash("tp", "fused_ce", "it multiplies by the whole output weight, and each rank has a part"),
    Clash(
        "tp:loss=True", "distill", "the teacher has all logits, and a rank only part of the model's; use tp:loss=false"
    ),
    *(Clash("pp", other, _STAGES) for other in ("ddp", *_SHARDED, "ep")),
    Clash("pp", "accum", "pp splits each batch into microbatches and updates once; use pp:microbatches="),
    Clash("pp", "optim_in_backward", "parameters would be updated after every microbatch"),
    Clash("pp", "amp:dtype=fp16", "each rank would skip updates on its own, with its own scale"),
    Clash("pp", "distill", "every stage would hold and run the whole teacher"),
    *(Clash("pp", other, "adapters are added to all layers, and a rank has only some") for other in ("lora", "qlora")),
    Clash("pp", "compile", _ONE_PASS),
    *(Clash("offload:what=parameters", other, _OWNS_STORAGE) for other in _FULLY_SHARDED),
    Clash("amp", "bf16", "with bf16 parameters, autocast has nothing to cast"),
    Clash("amp", "tf32", _NO_FP32_PRODUCTS),
    Clash("bf16", "tf32", _NO_FP32_PRODUCTS),
    *(Clash("channels_last", other, _CONTIGUOUS) for other in _FULLY_SHARDED),
    Clash("compile", "inplace", "torch.compile decides about in-place writes itself and ignores the option"),
    Clash("bf16:update=kahan", "optim", "its Kahan summation needs its own optimizers; use bf16:update=nearest"),
    Clash("lora", "qlora", "qlora is lora over 4-bit weights; choose one"),
    Clash("bf16:update=stochastic", "optim", "it rounds in its own optimizer; use bf16:update=nearest"),
    Clash(
        "bf16", "lora", "the check of bf16 expects half the bytes, and adapters add to them; use --dtype bf16 with lora"
    ),
    Clash("bf16", "qlora", "adapters over 4-bit weights are kept in fp32"),
    Clash("amp", "fp8", "both choose the dtype of linear layers' matmuls; use bf16+fp8"),
    *(Clash(first, second, _SAME_LAYERS) for first, second in combinations(("fp8", "qat", "qlora", "sparse24"), 2)),
    *(Clash("prune", other, _MASKED) for other in ("fp8", "lora", "qat", "qlora", "sparse24")),
    Clash(
        "compress", "offload:what=activations", "both replace autograd's saved tensors, which supports only one of them"
    ),
    *(
        Clash("offload:what=optimizer", f"{other}:offload=cpu", "the optimizer state is on the host already")
        for other in _FULLY_SHARDED
    ),
    *(
        Clash(f"optim:use={use}", other, _TRIED_WITH_TORCH)
        for use, kind in OPTIMIZERS.items()
        if not kind.target.startswith("torch.") or use == "adafactor"
        for other in (*(("hsdp",) if use == "lion" else (*_SHARDED, "ep")), "tp", "offload:what=optimizer")
    ),
    *(Clash("optim:use=sgd", other, "SGD has no state to move") for other in ("zero1", "offload:what=optimizer")),
    *(
        Clash(f"optim:use={use}", "optim_in_backward", _UPDATED_TOGETHER)
        for use in ("lamb", "adam_mini", "galore", "soap", "muon")
    ),
    Clash("bf16:update=kahan", "optim_in_backward", _UPDATED_TOGETHER),
    Clash(
        "amp:dtype=fp16", "optim_in_backward", "gradients are unscaled after backward, too late for updates in backward"
    ),
    Clash("ddp", "optim_in_backward", _REDUCED_LAST),
    Clash("ddp:static_graph=True", "accum", "with a static graph, every backward pass must average gradients"),
    *(Clash(f"ddp:hook={hook}", "amp:dtype=fp16", _KEPT_SCALED) for hook in ("powersgd", "topk")),
    Clash("zero1", "optim_in_backward", _REDUCED_LAST),
    *(Clash(relaxed, other, _WITHOUT_WAITING) for relaxed in _RELAXED for other in ("ddp", *_SHARDED)),
    Clash("local_sgd", "ssp", _WITHOUT_WAITING),
    *(
        Clash(relaxed, other, f"{relaxed} averages over all ranks, and {other} divides them")
        for relaxed in _RELAXED
        for other in ("tp", "pp")
    ),
    Clash("local_sgd", "offload:what=parameters", "parameters are offloaded when they are averaged"),
    Clash("ssp", "amp:dtype=fp16", "gradients are applied late, when the scale may have changed"),
    *(Clash(relaxed, "optim_in_backward", _REDUCED_LAST) for relaxed in _RELAXED),
    Clash("cp", "tp", "ring attention with heads split over ranks is untested"),
    Clash("cp", "pp", "cp splits sequences where the loss is computed, but pipeline stages compute no loss"),
    Clash("cp", "ep", "experts have a slot per token of a sequence, and a rank has part of the sequence"),
    Clash("cp", "flash", "ring attention chooses its own kernels"),
    Clash("cp", "distill", "the teacher would attend to only part of each sequence"),
    *(
        Clash("cp", relaxed, "a rank's gradients cover only its part of the sequence until they are averaged")
        for relaxed in _RELAXED
    ),
    Clash("accum", "optim_in_backward", "parameters would be updated after every microbatch"),
    Clash(
        "amp:dtype=fp16",
        "fused_ce",
        "its gradients are computed in fp16 in the forward pass, before the loss is scaled: losses would change",
    ),
    Clash("distill", "fused_ce", "fused_ce makes no logits to compare with the teacher's"),
    Clash("amp:dtype=fp16", "engine", _ENGINE_SCALES),
    *(
        Clash(
            "engine:use=lightning",
            f"offload:what={what}",
            _LOSS_IN_UPDATE,
        )
        for what in ("optimizer", "parameters")
    ),
    *(
        Clash("engine", other, "an engine starts its own ranks")
        for other in ("ddp", *_SHARDED, *_RELAXED, "tp", "pp", "ep", "cp")
    ),
    Clash(
        "flash:backend=math",
        "compile",
        "torch.compile decomposes math attention into the ops of explicit attention, so no check could tell "
        "whether it was active",
    ),
)

REQUIREMENTS = (
    Requirement("ckpt:mode=budget", "compile", "the memory budget is a setting of torch.compile's partitioner"),
)


def check_compatibility(techniques: Sequence[Technique]) -> None:
    """Raise `UsageError` for the first pair that clashes or requirement that is not met."""
    for clash in CLASHES:
        first, second = _find_technique(clash.first, techniques), _find_technique(clash.second, techniques)
        if first is not None and second is not None:
            raise UsageError(
                f"{format_technique(first)} and {format_technique(second)} cannot be combined: {clash.reason}"
            )
    for requirement in REQUIREMENTS:
        needing = _find_technique(requirement.technique, techniques)
        if needing is not None and _find_technique(requirement.needs, techniques) is None:
            raise UsageError(
                f"{requirement.technique} needs {requirement.needs}: {requirement.reason}; "
                f"use {format_technique(needing)}+{requirement.needs}"
            )


def is_match(technique: Technique, pattern: str) -> bool:
    """True if a technique matches a pattern such as `offload:what=parameters`."""
    name, *conditions = pattern.split(":")
    values = (condition.split("=", 1) for condition in conditions)
    return technique.name == name and all(str(getattr(technique, key)) == value for key, value in values)


def _find_technique(pattern: str, techniques: Sequence[Technique]) -> Technique | None:
    return next((technique for technique in techniques if is_match(technique, pattern)), None)
