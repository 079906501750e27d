"""Techniques that change layers: the work they remove and the work they repeat."""

from perfkit.analysis.findings.change import (
    Change,
    Takes,
    join_changes,
    leave_out,
    raise_to_roof,
    remove_rows,
    scale_rows,
)
from perfkit.analysis.trace.findings import matmuls
from perfkit.analysis.trace.findings.trace_view import FETCHING, LATE, TraceView
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.op_class import classify_op
from perfkit.plan.advise.answers import AddressedWork, Answer, format_taken_time
from perfkit.plan.advise.precision import PRODUCTS
from perfkit.techniques.activations.ckpt import Ckpt
from perfkit.techniques.activations.flash import Flash
from perfkit.techniques.base.planning import NoEffect, UnknownEffect
from perfkit.techniques.base.technique import Technique

_LOSS = (OpClass.LOSS, OpClass.SOFTMAX)


def estimate_flash(view: TraceView, technique: Technique) -> Answer:
    """Attention in one kernel: removes all other work on score matrices."""
    assert isinstance(technique, Flash)
    if technique.backend == "math":
        return NoEffect("runs the same ops as explicit attention")
    rows = next(iter(matmuls.find_unfused_attention(view)), None)
    if rows is None:
        return NoEffect("the step has no attention from separate ops")
    return AddressedWork(
        rows.finding.evidence,
        "a fused kernel takes as long as the matrix products alone, including recomputed scores",
        most=rows.change,
    )


def estimate_fused_ce(view: TraceView, _technique: Technique) -> Answer:
    """The loss in chunks: logits are neither written nor read for their softmax."""
    rows = [
        row for row in view.select_ops(*_LOSS) if classify_op(row.name) == OpClass.LOSS or "log_softmax" in row.name
    ]
    if not rows:
        return NoEffect("the step computes no loss from logits")
    return AddressedWork(
        f"softmax of the logits and their loss take {format_taken_time(view, rows)}",
        "the output layer's matrix products are as fast in chunks",
        most=remove_rows(rows, joins=True),
    )


def estimate_channels_last(view: TraceView, _technique: Technique) -> Answer:
    """Convolutions and the ops between them in the kernels' layout."""
    rows = view.select_ops(OpClass.CONVOLUTION)
    if not rows:
        return NoEffect("no convolutions in the step")
    turned = [
        result.change
        for rule in (matmuls.find_convolution_transposes, matmuls.find_batch_norm_layout)
        for result in rule(view)
    ]
    return AddressedWork(
        f"convolutions take {format_taken_time(view, rows)}",
        "convolutions reach their roofline, and no layout is converted",
        most=join_changes((raise_to_roof(rows), *turned)),
    )


def estimate_ckpt(view: TraceView, technique: Technique) -> Answer:
    """Repeats the forward pass; with `mode=selective` without the products."""
    assert isinstance(technique, Ckpt)
    if technique.mode == "budget":
        return UnknownEffect("the compiler's recomputation")
    forward = [row for row in view.select_ops() if row.phase == "forward"]
    again = [row for row in forward if technique.mode == "full" or classify_op(row.name) not in PRODUCTS]
    if not forward:
        return UnknownEffect("the extent of the forward pass, which the trace lacks")
    return AddressedWork(
        f"the forward pass takes {format_taken_time(view, forward)}",
        "recomputation takes as long as the original, at most the whole forward pass",
        most=Change(),
        again=remove_rows(again, joins=True),
    )


def estimate_lora(view: TraceView, _technique: Technique) -> Answer:
    """Frozen weights have no gradients: removes half of the backward products and most of the update."""
    backward = [row for row in view.select_ops(OpClass.MATMUL) if row.phase == "backward"]
    update = [row for row in view.select_ops() if row.phase == "optimizer"]
    if not backward:
        return NoEffect("no GEMMs in backward")
    return AddressedWork(
        f"backward GEMMs take {format_taken_time(view, backward)}, the update {format_taken_time(view, update)}",
        "every GEMM belongs to a frozen linear layer; adapters take no time",
        most=join_changes((scale_rows(backward, 0.5), remove_rows(update, joins=True))),
    )


def estimate_data(view: TraceView, _technique: Technique) -> Answer:
    """Batches made in other processes: removes the data wait."""
    share = view.data_wait_share
    rows = [row for row in view.trace.host_calls if row.kind == "data"]
    took = sum(row.seconds for row in rows) if share is None else share * view.trace.step_s
    if not rows or took <= 0:
        return NoEffect("no data wait in the step")
    return AddressedWork(
        f"the step waits {view.show_time(took)} for data",
        "workers produce batches as fast as steps consume them",
        most=leave_out(FETCHING),
    )


def estimate_larger_batch(view: TraceView, ratio: float) -> Answer:
    """A batch `ratio` times as large, of a step's worth of samples: the update is shared by more of them."""
    update = [row for row in view.select_ops() if row.phase == "optimizer"]
    part = 1 / ratio
    if ratio < 1:
        return UnknownEffect("the extra time per sample in a step of fewer samples")
    shared = Change(tuple(Takes(row, part) for row in update))
    return AddressedWork(
        f"the update takes {format_taken_time(view, update)}, at any batch size",
        "work per sample takes as long; at best, the device never waits for launches",
        most=join_changes((shared, leave_out(LATE))),
        least=shared,
    )
