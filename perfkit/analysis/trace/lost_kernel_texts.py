"""Texts on lost kernels, and on their consequences for the figures of a trace: one wording for traces and for bench."""

from perfkit.analysis.model.step import LostKernels
from perfkit.core.note import Note, make_note
from perfkit.core.units import format_percent

# The direction of the error, as `bound` marks it in the figures.
LOST_MEANING = "busy time, FLOPs and gains are lower bounds, idle time is an upper bound"
_KNOWN = "loses records at the start of a recording, more so in long-running processes (pytorch#192021)"


def format_lost_title(lost: LostKernels) -> str:
    return f"{format_percent(lost.share)} of launched kernels are missing"


def format_lost_evidence(lost: LostKernels) -> str:
    """`599 of 1,198 have no record; ...`."""
    without_record = lost.lost - lost.without_time
    parts = [
        f"{count:,} {'has' if count == 1 else 'have'} {what}"
        for count, what in ((without_record, "no record"), (lost.without_time, "a record without a time"))
        if count
    ]
    return f"of {lost.launched:,} launched in the steps, {' and '.join(parts)}; {LOST_MEANING}"


def format_lost_action(lost: LostKernels) -> str:
    again = "Record again with warm-up steps, in a process that has recorded nothing before"
    if lost.known_fault:
        return f"{again}, or with CUDA 13.1: {lost.profiler} {_KNOWN}."
    return f"{again}; with KINETO_LOG_LEVEL=0 torch logs how many records it dropped (Out-of-range)."


def list_lost_notes(lost: LostKernels | None) -> list[Note]:
    """Remarks on a trace: losses too few to matter, and CUDA graphs whose launches are unknown."""
    notes = []
    if lost is not None and lost.lost and not lost.matters:
        text = f"{format_lost_evidence(lost).partition(';')[0]}: too few to change the figures"
        notes.append(make_note("trace.few_lost_kernels", text, lost=lost.lost, launched=lost.launched))
    if lost is not None and lost.mixed_up_graphs:
        count = lost.mixed_up_graphs
        text = (
            f"{count:,} CUDA graph launch{'es' if count > 1 else ''} cannot be matched with kernels: CUPTI before 13.1 "
            "update 1 mixes up their correlation ids in every recording of a process but the first; the ops and "
            "launches of these kernels are unknown"
        )
        notes.append(make_note("trace.mixed_up_graphs", text, launches=count))
    return notes
