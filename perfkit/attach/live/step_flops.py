"""Counts FLOPs of a step of an attached loop, once while it runs."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from torch import nn

from perfkit.attach.loop.phase_marks import PhaseMarks
from perfkit.core.record.quantity import Measurement, Quantity, QuantityOrigin, Unknown
from perfkit.cost.calls.op_call import OpCall, OpCost
from perfkit.cost.live_flops import FlopCount, FlopCounter
from perfkit.cost.torch_dispatch import list_modes
from perfkit.instruments.compile_exclusion import is_compiler_wrapper
from perfkit.instruments.recording import Recording
from perfkit.techniques.base.compile_facts import collect_compile_facts

NAMED = 3  # ops without a formula that are named


class StepFlops(NamedTuple):
    """FLOPs of a step; `by_operands` splits them by op and dtype of the operands, empty where they are not known."""

    total: Quantity
    by_operands: Mapping[tuple[str, str], float] = {}


class _ModelFlopCounter(FlopCounter):
    """Counts ops outside of the optimizer's phase."""

    def __init__(self, phases: PhaseMarks) -> None:
        super().__init__()
        self._phases = phases

    def called(self, call: OpCall, cost: OpCost | None, result: Any) -> None:
        if self._phases.current != "optimizer":
            super().called(call, cost, result)


def count_step_flops(models: Mapping[str, nn.Module], phases: PhaseMarks) -> Recording[StepFlops]:
    """Count the FLOPs of the next step of this rank, without its optimizers' own (Muon, Shampoo): matrix products,
    convolutions and attention.

    Wants one step, or none where counting would change what runs or see only a part of it. Every op of the step takes
    tens of microseconds longer; what it computes stays the same to the bit. Recomputed activations count: with
    checkpointing the MFU made of it is too high by these.
    """
    reason = _explain_uncountable(models.values())
    if reason:
        return StepFlops(Unknown(reason=reason))
    counter = _ModelFlopCounter(phases)
    with counter:
        yield
    count = counter.build_count()
    return StepFlops(_build_quantity(count), count.matrix_by_operands)


def _explain_uncountable(models: Iterable[nn.Module]) -> str:
    if collect_compile_facts() or any(_is_compiled(module) for model in models for module in model.modules()):
        return "FLOPs inside compiled code cannot be counted while it runs; pass flops_per_step"
    if any(isinstance(model, nn.DataParallel) and len(model.device_ids) > 1 for model in models):
        return "FLOPs in DataParallel's threads cannot be counted; pass flops_per_step"
    if list_modes():
        return "another TorchDispatchMode is active between steps; pass flops_per_step"
    return ""


def _is_compiled(module: nn.Module) -> bool:
    """True if compiled by `torch.compile(module)` or `module.compile()`."""
    return is_compiler_wrapper(module) or module._compiled_call_impl is not None


def _build_quantity(count: FlopCount) -> Quantity:
    if not count.matrix:
        return Unknown(reason="no GEMM seen in a step: CUDA graphs and custom kernels do not report theirs")
    source = "GEMMs, convolutions and attention of one step as run, without optimizers"
    if count.uncounted:
        names = sorted(count.uncounted)
        source += f"; without {', '.join(names[:NAMED])}{' and others' if len(names) > NAMED else ''}"
    return Measurement(value=count.unmasked, unit="FLOP", how=QuantityOrigin.COUNTED, source=source + count.convention)
