"""Rules about ops that run one by one where one call would do: in a Python loop, or in small batches."""

from collections.abc import Iterator

from msgspec.structs import replace

from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.finding import GainRange
from perfkit.analysis.trace.findings.program_lines import name_python_lines
from perfkit.analysis.trace.findings.trace_thresholds import COMMON
from perfkit.analysis.trace.findings.trace_view import LATE, TraceView, list_kernels, sum_seconds
from perfkit.devices.accelerator import is_cpu

# Calls of one op with equal shapes in one phase of a step: more than models have layers.
_MANY = 64
# Of a microbatch's ops: a batch of all of them takes at least the time at the roof.
_LEAST_MICROBATCHES = 2

# Why a gain is not simulated: a replay knows no part of Python for each op.
UNDIVIDED = "Python and dispatch cannot be divided among ops in a replay"


def find_repeated_calls(view: TraceView) -> Iterator[RuleResult]:
    """On a CPU, ops that are called so often with the same shapes that they are called in a loop."""
    if not is_cpu(view.trace.device) or not view.trace.steps:
        return
    rows = [row for row in view.select_ops() if row.calls >= _MANY]
    took = sum_seconds(rows)
    calls = sum(row.calls for row in rows)
    around_s = view.estimate_dispatch_s(calls)
    if not rows or view.get_share(took + around_s) < COMMON:
        return
    result = view.build_gain(
        "calls.repeated",
        "Ops are called one by one in a loop",
        f"{view.format_calls(calls)} of ops with {_MANY} equal calls or more take {view.show_time(took)}: "
        f"{list_kernels(rows)}{name_python_lines(view.loop)}",
        "Batch them: stack the samples, heads or items, and call each op once (torch.vmap for functions).",
        took + around_s,
        basis="these calls with their part of Python and dispatch, at most with all of it",
        rows=rows,
        scope=(LATE,),
        figures={"time_s": took, "python_s": around_s, "calls": calls},
    )
    step_s = view.trace.step_s
    most = GainRange(unit="s", low=0.0, high=min(took + view.python_s, step_s), basis="bound")
    yield result._replace(finding=replace(result.finding, gains=(most,), not_simulated_reason=UNDIVIDED))


def find_small_microbatches(view: TraceView) -> Iterator[RuleResult]:
    """On a CPU, gradients that are accumulated over small batches: the ops of each cost more than their work."""
    batches = None if view.loop is None else view.loop.microbatches
    if batches is None or batches < _LEAST_MICROBATCHES or not is_cpu(view.trace.device):
        return
    rows = [row for row in view.select_ops() if row.phase in ("forward", "backward") and row.calls >= batches]
    above_s = sum(row.seconds - (row.attainable_s or 0.0) for row in rows if row.attainable_s is not None)
    saved_s = (above_s + view.python_s) * (1 - 1 / batches)
    if view.get_share(saved_s) < COMMON:
        return
    yield view.build_gain(
        "accumulation.small_batches",
        f"Gradients are accumulated over {batches:g} small batches",
        f"{view.show_time(above_s)} above the roofs of forward and backward ops, "
        f"{view.show_time(view.python_s)} in Python and dispatch",
        "Use one larger batch, or fewer microbatches, if it fits into memory.",
        saved_s,
        basis="assumes that one batch takes this time once; it needs the memory of all activations",
        rows=rows,
        scope=(LATE,),
        figures={"microbatches": batches, "above_s": above_s},
    )
