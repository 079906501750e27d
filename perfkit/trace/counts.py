"""How often which op was called, for claims about what a technique did."""

from collections import Counter

import numpy as np

from perfkit.record import PHASES
from perfkit.trace.kernels import is_compiled_kernel
from perfkit.trace.ops import Ops
from perfkit.trace.read import NONE


def op_calls(ops: Ops, phase: str | None = None) -> dict[str, float]:
    """Calls of each op per step, in all of a step or in one of its phases.

    Every call is counted, nested ones too: `aten::linear` as well as the `aten::addmm` within it. Ops outside of steps
    are left out; a trace that marks no steps counts as one.
    """
    inside = ops.step != NONE if len(ops.steps) else np.ones(len(ops), bool)
    if phase is not None:
        inside = inside & (ops.phase == PHASES.index(phase))
    names, calls = np.unique(ops.trace.name[ops.event[inside]], return_counts=True)
    return _per_step(Counter(dict(zip(names.tolist(), calls.tolist(), strict=True))), ops)


def kernel_calls(ops: Ops) -> dict[str, float]:
    """Kernels per step: those of devices where any ran, else the CPU kernels that torch.compile generated.

    A kernel belongs to the step in which it was launched. One whose launch was not recorded is not counted.
    """
    trace = ops.trace
    if trace.has_device_events:
        launched = ops.kernel_op != NONE
        if len(ops.steps):
            launched &= np.append(ops.step, NONE)[ops.kernel_op] != NONE
        return _per_step(Counter(trace.name[ops.kernels.event[launched]].tolist()), ops)
    inside = ops.step != NONE if len(ops.steps) else np.ones(len(ops), bool)
    names = Counter(trace.name[ops.event[inside]].tolist())
    return _per_step(Counter({key: n for key, n in names.items() if is_compiled_kernel(trace.names[key])}), ops)


def _per_step(counts: Counter[int], ops: Ops) -> dict[str, float]:
    steps = max(len(ops.steps), 1)
    return {ops.trace.names[name]: count / steps for name, count in counts.items()}
