"""Techniques that change the optimizer's update: its time by the bytes it moves."""

from perfkit.analysis.findings.change import scale_rows
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.findings import memory_bound
from perfkit.plan.advise.answers import (
    AddressedWork,
    AdvisedView,
    Answer,
    format_taken_time,
    make_rule_target,
)
from perfkit.techniques.base.planning import NoEffect, UnknownEffect
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.optimizers.optim import Optim

# Parameter-sized tensors that one pass of an update reads and writes: parameters, gradients, and each moment twice.
_MOVES = {"sgd": 3, "momentum": 5, "lion": 5, "adamw": 7}

_fused = make_rule_target(
    (memory_bound.find_unfused_optimizer,),
    "the update moves each byte once",
    "the update is already fused, or too short to gain",
)


def estimate_optim(view: AdvisedView, technique: Technique) -> Answer:
    """Another implementation of the update, or one that moves fewer bytes."""
    assert isinstance(technique, Optim)
    if technique.use == "fused":
        return _fused(view, technique)
    rows = _find_update_rows(view)
    if technique.use == "foreach":
        if any("_foreach_" in row.name or "_fused_" in row.name for row in rows):
            return NoEffect("the update already processes parameters together")
        return _fused(view, technique)
    moves = _MOVES.get(technique.use)
    if moves is None:
        return UnknownEffect(f"the number of ops in the update of {technique.use}")
    update_bytes = sum(row.bytes or 0.0 for row in rows)
    one = _estimate_parameter_bytes(view)
    if not update_bytes or one is None:
        return UnknownEffect("the bytes that the recorded update moves")
    part = min(1.0, moves * one / update_bytes)
    return AddressedWork(
        f"the update takes {format_taken_time(view, rows)}",
        f"it moves {moves} times the parameters at the recorded rate",
        most=scale_rows(rows, part),
    )


def _find_update_rows(view: AdvisedView) -> list[OpRow]:
    return [row for row in view.select_ops() if row.phase == "optimizer"]


def _estimate_parameter_bytes(view: AdvisedView) -> float | None:
    """Bytes of the updated parameters: a quarter of `addcdiv`'s traffic, a seventh of a fused Adam's."""
    rows = _find_update_rows(view)
    of = [
        (row.bytes, moves) for row in rows for name, moves in (("addcdiv", 4), ("_fused_adam", 7)) if name in row.name
    ]
    known = [moved / moves for moved, moves in of if moved]
    return sum(known) if known else None
