"""Maps each technique to its effect on a recorded step: a table in which the first match holds."""

from typing import NamedTuple

from perfkit.analysis.trace.findings import host, memory_bound, transfer
from perfkit.plan.advise.answers import (
    AdvisedView,
    Answer,
    Target,
    make_no_effect_target,
    make_rule_target,
    make_unknown_target,
)
from perfkit.plan.advise.layers import (
    estimate_channels_last,
    estimate_ckpt,
    estimate_data,
    estimate_flash,
    estimate_fused_ce,
    estimate_lora,
)
from perfkit.plan.advise.optimizer_update import estimate_optim
from perfkit.plan.advise.precision import estimate_amp, estimate_bf16, estimate_fp8, estimate_tf32
from perfkit.techniques.base.planning import UnknownEffect
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.compatibility import is_match

_FUSING = (
    memory_bound.find_unfused_elementwise,
    memory_bound.find_norm_in_parts,
    memory_bound.find_softmax_in_parts,
    memory_bound.find_dtype_conversions,
    host.find_host_bound,
)
_COPIES = (transfer.find_pageable_copies, transfer.find_exposed_copies)


_SHARED = ("ddp", "zero1", "zero2", "zero3", "hsdp", "tp", "ep")


class TargetRow(NamedTuple):
    """A technique, by a pattern as in `perfkit.techniques.compatibility`."""

    pattern: str
    target: Target


TARGETS = (
    TargetRow("amp", estimate_amp),
    TargetRow("bf16", estimate_bf16),
    TargetRow("tf32", estimate_tf32),
    TargetRow("fp8", estimate_fp8),
    TargetRow("flash", estimate_flash),
    TargetRow("fused_ce", estimate_fused_ce),
    TargetRow("channels_last", estimate_channels_last),
    TargetRow("ckpt", estimate_ckpt),
    TargetRow("lora", estimate_lora),
    TargetRow("optim", estimate_optim),
    TargetRow(
        "compile",
        make_rule_target(
            _FUSING,
            "each group of same-size ops becomes one pass over its largest tensor, and launches keep up",
            "no adjacent memory-bound ops, and launches keep up",
        ),
    ),
    TargetRow(
        "data:pin=True", make_rule_target(_COPIES, "copies overlap with compute", "the step has no exposed copies")
    ),
    TargetRow("data", estimate_data),
    TargetRow("inplace", make_no_effect_target("saves memory only: an in-place op takes as long")),
    TargetRow("accum", make_unknown_target("the same work in smaller parts takes longer; no time saved")),
    TargetRow("prune", make_unknown_target("mask overhead not modeled; no time saved")),
    TargetRow("qat", make_unknown_target("rounding overhead not modeled; no time saved")),
    TargetRow("distill", make_unknown_target("teacher's time not modeled; no time saved")),
    TargetRow("engine", make_unknown_target("engine overhead not modeled; no time saved")),
    TargetRow("offload", make_unknown_target("time of the transfers in both directions")),
    TargetRow("compress", make_unknown_target("time to round saved tensors")),
    TargetRow("qlora", make_unknown_target("time to unpack 4-bit weights")),
    TargetRow("sparse24", make_unknown_target("efficiency of 2:4-sparse matrix products at the doubled peak")),
    TargetRow("optim_in_backward", make_unknown_target("gain from reading gradients sooner")),
    *(
        TargetRow(name, make_unknown_target("time of its collectives, without a plan for several ranks"))
        for name in _SHARED
    ),
)


def find_answer(view: AdvisedView, technique: Technique) -> Answer:
    """A technique's effect on a step, or the reason that it is unknown."""
    row = next((row for row in TARGETS if is_match(technique, row.pattern)), None)
    return UnknownEffect("its effect on a step") if row is None else row.target(view, technique)
