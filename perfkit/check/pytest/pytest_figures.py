"""Builds all figures of a step by name, with reasons for unknown ones."""

from collections.abc import Sequence
from functools import reduce
from operator import and_

from perfkit.check.pytest.figure import Figure, Meaning
from perfkit.check.pytest.figure_parts import Parts, format_largest_parts
from perfkit.check.pytest.measure import StepMeasurement
from perfkit.check.pytest.ops import StepKind
from perfkit.check.pytest.quantities import FIGURES
from perfkit.core.record.quantity import Unknown

_MOST_OPS = 3  # maximum ops named for a kind of work

StepFigures = dict[str, Figure | Unknown]


def build_figures(measured: StepMeasurement, parts: Parts) -> StepFigures:
    """Figures in the order of the quantities' table."""
    memory, ops = measured.memory, measured.ops
    values: dict[str, float | Unknown] = {
        "peak_allocated": memory.peak,
        "peak_above_start": memory.above_start,
        "saved_activations": _explain_unsaved(measured) if memory.saved is None else sum(memory.saved.values()),
        "flops": measured.flops.matrix,
        "op_count": sum(ops.count_working().values()),
        "kernel_count": sum(ops.kernels.values())
        if ops.on_device
        else Unknown(reason="no kernel ran on a device; on a CPU use op_count"),
        "graph_breaks": sum(measured.graph_breaks.values()),
    }
    if ops.kinds:
        other_work = Unknown(reason=describe_kinds(ops.kinds))
        values = {name: value if name == "graph_breaks" else other_work for name, value in values.items()}
    figures: StepFigures = {}
    for quantity in FIGURES:
        value = values[quantity.name]
        if isinstance(value, Unknown):
            figures[quantity.name] = value
        else:
            figures[quantity.name] = Figure(
                value, Meaning(quantity.title, quantity.unit, format_largest_parts(parts, quantity.name))
            )
    return figures


def describe_kinds(kinds: Sequence[StepKind]) -> str:
    """The kinds of work by the calls that do them, with the ops whose numbers differ."""
    common = reduce(and_, (kind.ops for kind in kinds))
    parts = []
    for kind in kinds:
        own = ", ".join(f"{kind.ops[name]} x {name}" for name, _ in (kind.ops - common).most_common(_MOST_OPS))
        which = f"call{'s' if len(kind.calls) > 1 else ''} {', '.join(map(str, kind.calls))}"
        parts.append(f"{which}: {kind.ops.total()} ops" + (f" ({own})" if own else ""))
    return (
        f"calls of the step take turns with {len(kinds)} kinds of work ({'; '.join(parts)}), so a figure would be that "
        "of one kind; pass a step that runs a whole cycle, or check each kind by itself"
    )


def _explain_unsaved(measured: StepMeasurement) -> Unknown:
    reason = "no backward pass followed a forward pass"
    return Unknown(reason=reason if measured.models else f"{reason}: pass the model (model=...) to observe its calls")
