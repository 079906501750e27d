"""Maps each technique to what it changes of a recorded step: a table to be read. The first row that fits holds."""

from typing import NamedTuple

from perfkit.analysis.findings.trace import host, memory_bound, transfer
from perfkit.plan.advise.answers import (
    AdvisedView,
    Answer,
    Target,
    UnknownEffect,
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
from perfkit.techniques.compatibility import is_match
from perfkit.techniques.technique import Technique

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
            "each group of ops on one size is one pass over its largest, and the host launches as fast as is needed",
            "no ops bound by memory are neighbours, and the host is no limit",
        ),
    ),
    TargetRow(
        "data:pin=True", make_rule_target(_COPIES, "copies run beside computing", "no copies of the step are exposed")
    ),
    TargetRow("data", estimate_data),
    TargetRow("inplace", make_no_effect_target("it saves memory: an op is as long in place")),
    TargetRow("accum", make_unknown_target("what the same work takes longer in smaller parts: it saves no time")),
    TargetRow("prune", make_unknown_target("how long its masks take: it saves no time")),
    TargetRow("qat", make_unknown_target("how long rounding takes: it saves no time")),
    TargetRow("distill", make_unknown_target("how long the teacher takes: it saves no time")),
    TargetRow("engine", make_unknown_target("what an engine does beside the same step: it saves no time")),
    TargetRow("offload", make_unknown_target("how fast what it moves goes out and comes back")),
    TargetRow("compress", make_unknown_target("how long rounding what is saved takes")),
    TargetRow("qlora", make_unknown_target("how long unpacking weights of 4 bits takes")),
    TargetRow("sparse24", make_unknown_target("how much of twice the peak products with half of the weights reach")),
    TargetRow("optim_in_backward", make_unknown_target("how much sooner a gradient is read again")),
    *(
        TargetRow(name, make_unknown_target("what its collectives take, without a plan of several ranks"))
        for name in _SHARED
    ),
)


def find_answer(view: AdvisedView, technique: Technique) -> Answer:
    """What a technique changes of a step, or why nothing is known of it."""
    row = next((row for row in TARGETS if is_match(technique, row.pattern)), None)
    return UnknownEffect("what it changes of a step") if row is None else row.target(view, technique)
