"""What each technique of the shelf changes of a recorded step: a table to be read. The first row that fits holds."""

from typing import NamedTuple

from perfkit.analysis.findings.trace import host, memory_bound, transfer
from perfkit.plan.advise.addressed import AdvisedView, Answer, NotKnown, Target, by_rules, not_known, nothing
from perfkit.plan.advise.layers import channels_last, ckpt, fetching, flash, fused_ce, lora
from perfkit.plan.advise.precision import amp, bf16, fp8, tf32
from perfkit.plan.advise.update import optim
from perfkit.techniques.compatibility import matches
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


class Row(NamedTuple):
    """A technique, by a pattern as in `perfkit.techniques.compatibility`."""

    pattern: str
    target: Target


TARGETS = (
    Row("amp", amp),
    Row("bf16", bf16),
    Row("tf32", tf32),
    Row("fp8", fp8),
    Row("flash", flash),
    Row("fused_ce", fused_ce),
    Row("channels_last", channels_last),
    Row("ckpt", ckpt),
    Row("lora", lora),
    Row("optim", optim),
    Row(
        "compile",
        by_rules(
            _FUSING,
            "each group of ops on one size is one pass over its largest, and the host launches as fast as is needed",
            "no ops bound by memory are neighbours, and the host is no limit",
        ),
    ),
    Row("data:pin=True", by_rules(_COPIES, "copies run beside computing", "no copies of the step are exposed")),
    Row("data", fetching),
    Row("inplace", nothing("it saves memory: an op is as long in place")),
    Row("accum", not_known("what the same work takes longer in smaller parts: it saves no time")),
    Row("prune", not_known("how long its masks take: it saves no time")),
    Row("qat", not_known("how long rounding takes: it saves no time")),
    Row("distill", not_known("how long the teacher takes: it saves no time")),
    Row("engine", not_known("what an engine does beside the same step: it saves no time")),
    Row("offload", not_known("how fast what it moves goes out and comes back")),
    Row("compress", not_known("how long rounding what is saved takes")),
    Row("qlora", not_known("how long unpacking weights of 4 bits takes")),
    Row("sparse24", not_known("how much of twice the peak products with half of the weights reach")),
    Row("optim_in_backward", not_known("how much sooner a gradient is read again")),
    *(Row(name, not_known("what its collectives take, without a plan of several ranks")) for name in _SHARED),
)


def answer(view: AdvisedView, technique: Technique) -> Answer:
    """What a technique changes of a step, or why nothing is known of it."""
    row = next((row for row in TARGETS if matches(technique, row.pattern)), None)
    return NotKnown("what it changes of a step") if row is None else row.target(view, technique)
