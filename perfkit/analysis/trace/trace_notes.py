"""Notes on a trace: what its figures do not cover, and why."""

import numpy as np

from perfkit.analysis.trace.lost_kernel_texts import list_lost_notes
from perfkit.analysis.trace.missing_device_events import describe_unused_device
from perfkit.analysis.trace.op_tables import describe_cut
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.analysis.trace.work.reported_costs import read_reported_costs
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.core.note import Note, make_note
from perfkit.core.optional_deps import is_torch_installed
from perfkit.core.units import format_percent
from perfkit.cost.formula_table import is_left_to_torch
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import Ops

# Ops that a note names.
_MOST_NAMED = 3


def collect_notes(ops: Ops, spans: StepWindows, engine: WorkAnalysis, unseen: str) -> tuple[Note, ...]:
    """`unseen` says why the device that the program used is missing; empty if it is not."""
    notes = []
    if unseen:
        notes.append(make_note("trace.unseen_device", f"{unseen}: ops and times are CPU only"))
    notes += describe_unused_device(ops.trace)
    notes += list_lost_notes(engine.lost)
    work = engine.pieces
    if not len(work):
        notes.append(make_note("trace.no_work", "the trace contains no kernels and no ops that do work: no roofline"))
    elif work.on_device and not len(ops):
        text = "the trace contains kernels only: no ops, so no shapes and no cost model"
        notes.append(make_note("trace.no_ops", text))
    stated = int(work.busy_ns[~np.isnan(read_reported_costs(work)[1])].sum()) if ops.trace.statements else 0
    if stated:
        share = stated / int(work.busy_ns.sum())
        text = f"FLOPs and bytes of {format_percent(share, 0)} of the time come from XLA, not from formulas"
        notes.append(make_note("trace.reported_costs", text, share=share))
    notes += _list_ops_left_to_torch(ops)
    if not spans.are_steps:
        notes.append(make_note("trace.no_steps", "no steps marked or detected: figures cover the whole trace"))
    notes += describe_cut(engine.by_kernel, "kernels") if work.on_device else []
    notes += describe_cut(engine.by_op, "ops")
    return tuple(notes)


def _list_ops_left_to_torch(ops: Ops) -> list[Note]:
    """Without torch, say which ops it might have costed: they count as unknown, or as the ops beneath them."""
    if is_torch_installed():
        return []
    sized = ops.event[ops.trace.signature[ops.event] != NONE]
    names = [ops.trace.names[index] for index in np.unique(ops.trace.name[sized]).tolist()]
    left = sorted(filter(is_left_to_torch, names))
    if not left:
        return []
    text = (
        f"{len(left)} ops have no formula of perfkit's, and torch, which may have one, is not installed: their own "
        f"cost is not known ({', '.join(left[:_MOST_NAMED])}{', …' if len(left) > _MOST_NAMED else ''})"
    )
    return [make_note("trace.without_torch", text, ops=len(left))]
