"""Builds all figures of a step by name, with reasons for unknown ones."""

from perfkit.check.pytest.figure import Figure, Meaning
from perfkit.check.pytest.figure_parts import Parts, format_largest_parts
from perfkit.check.pytest.measure import StepMeasurement
from perfkit.check.pytest.quantities import FIGURES
from perfkit.core.record import Unknown

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


def _explain_unsaved(measured: StepMeasurement) -> Unknown:
    reason = "no backward pass followed a forward pass"
    return Unknown(reason=reason if measured.models else f"{reason}: pass the model (model=...) to observe its calls")
