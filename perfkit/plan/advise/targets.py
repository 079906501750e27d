"""Effects of techniques on a recorded step: a table of estimates, else what each declares."""

from collections.abc import Mapping

from perfkit.analysis.trace.findings import host, memory_bound, transfer
from perfkit.plan.advise.answers import AdvisedView, Answer, Target, make_rule_target
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
from perfkit.techniques.base.planning import UNKNOWN_EFFECT
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.data.data import Data

_estimate_compile = make_rule_target(
    (
        memory_bound.find_unfused_elementwise,
        memory_bound.find_norm_in_parts,
        memory_bound.find_softmax_in_parts,
        memory_bound.find_dtype_conversions,
        host.find_host_bound,
    ),
    "each group of same-size ops becomes one pass over its largest tensor, and launches keep up",
    "no adjacent memory-bound ops, and launches keep up",
)
_estimate_pinned = make_rule_target(
    (transfer.find_pageable_copies, transfer.find_exposed_copies),
    "copies overlap with compute",
    "the step has no exposed copies",
)


def _estimate_loading(view: AdvisedView, technique: Technique) -> Answer:
    assert isinstance(technique, Data)
    return _estimate_pinned(view, technique) if technique.pin else estimate_data(view, technique)


# The techniques that declare an estimated effect (`Planning.time_effect`).
ESTIMATES: Mapping[str, Target] = {
    "amp": estimate_amp,
    "bf16": estimate_bf16,
    "tf32": estimate_tf32,
    "fp8": estimate_fp8,
    "flash": estimate_flash,
    "fused_ce": estimate_fused_ce,
    "channels_last": estimate_channels_last,
    "ckpt": estimate_ckpt,
    "lora": estimate_lora,
    "optim": estimate_optim,
    "compile": _estimate_compile,
    "data": _estimate_loading,
}


def find_answer(view: AdvisedView, technique: Technique) -> Answer:
    """A technique's effect on a step, or the reason that it is unknown."""
    estimate = ESTIMATES.get(technique.name)
    if estimate is not None:
        return estimate(view, technique)
    return technique.planning.time_effect or UNKNOWN_EFFECT
