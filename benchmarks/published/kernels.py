"""Kernels of attention that measured programs ran, and what their steps take beside those planned with torch's."""

from collections.abc import Mapping

from msgspec.structs import replace

from benchmarks.attention_kernels import SDPA, Ratio
from perfkit.analysis.model.plan import Interval, PlannedVariant, StepTime
from perfkit.cost.calls.op_call import OpClass

# Times over those of FlashAttention 2 with as many FLOPs, forward and backward, on an A100: that of Triton takes 1.3 to
# 1.5 times as long forward, and around twice backward, 2.5 times at most (arXiv 2307.08691, sections 4 and 4.1).
KERNELS: Mapping[str, tuple[Ratio, Ratio]] = {"FlashAttention 1 in Triton": (Ratio(1.3, 1.5), Ratio(1.6, 2.5))}


def plan_kernel(planned: PlannedVariant, kernel: str) -> PlannedVariant:
    """The variant with this kernel in place of FlashAttention 2, for which a GPU waits.

    Raises:
        ValueError: it was planned with another kernel than FlashAttention 2, or with none.
    """
    if planned.step_s is None:
        return planned
    seconds = {row.name: row.seconds for row in planned.ops}
    flash = [f"{SDPA}flash_attention{suffix}" for suffix in ("", "_backward")]
    if not seconds.keys() >= set(flash):
        raise ValueError(f"{kernel} takes the place of FlashAttention 2: allow it alone in the workload's attention")
    step = planned.step_s
    for op, ratio in zip(flash, KERNELS[kernel], strict=True):
        step = _slow_down(step, seconds[op], ratio)
    return replace(planned, step_s=step)


def _slow_down(step: StepTime, seconds: float, ratio: Ratio) -> StepTime:
    low, value, high = (seconds * (each - 1) for each in (ratio.low, ratio.middle, ratio.high))
    total = Interval(value=step.total.value + value, low=step.total.low + low, high=step.total.high + high)
    parts = dict(step.parts)
    parts[OpClass.ATTENTION] += value
    return replace(step, total=total, parts=parts)
