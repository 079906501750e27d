"""The tensor lists of optimizers, inferred from the gradients that autograd accumulated.

A trace has no shapes of lists of more than thirty tensors (torch/csrc/profiler/util.h,
`TENSOR_LIST_DISPLAY_LENGTH_LIMIT`), but those of every gradient, one for each parameter that is trained.
"""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from perfkit.cost.calls.op_call import TensorArg
from perfkit.cost.kernels.multi_tensor import CHUNK
from perfkit.trace.event_names import mark_named
from perfkit.trace.ops.ops import Ops
from perfkit.trace.ops.signatures import parse_arguments

Dims = tuple[int, ...]


def count_elements_by_blocks(ops: Ops) -> dict[int, int]:
    """The elements of lists of gradients, by how many chunks they are cut into: all gradients, and those with and
    without weight decay as a rule (of matrices, of vectors). Counts of chunks that lists of other sizes share are left
    out."""
    counts: dict[int, set[int]] = {}
    for gradients in _list_backward_gradients(ops):
        matrices = Counter({dims: count for dims, count in gradients.items() if len(dims) > 1})
        for chosen in (gradients, matrices, gradients - matrices):
            sizes = [(math.prod(dims), count) for dims, count in chosen.items()]
            blocks = sum(-(-size // CHUNK) * count for size, count in sizes)
            counts.setdefault(blocks, set()).add(sum(size * count for size, count in sizes))
    return {blocks: elements.pop() for blocks, elements in counts.items() if blocks and len(elements) == 1}


def _list_backward_gradients(ops: Ops) -> Iterator[Counter[Dims]]:
    """The gradients of a backward pass: those of each step, which may have several passes alike."""
    rows = np.flatnonzero(mark_named(ops.trace, ops.event, "torch::autograd::AccumulateGrad".__eq__))
    signature = ops.trace.signature[ops.event[rows]]
    of_step, times = np.unique(np.stack((ops.step[rows], signature)), axis=1, return_counts=True)
    steps: dict[int, set[tuple[int, int]]] = {}
    for step, number, count in zip(*of_step.tolist(), times.tolist(), strict=True):
        steps.setdefault(step, set()).add((number, count))
    for calls in {frozenset(calls) for calls in steps.values()}:
        gradients: Counter[Dims] = Counter()
        for number, count in calls:
            arguments = parse_arguments(ops.trace.signatures[number]) if number >= 0 else None
            gradient = arguments[0] if arguments else None
            if isinstance(gradient, TensorArg):
                gradients[gradient.shape] += count
        passes = math.gcd(*gradients.values())
        for repeat in range(1, passes + 1):
            if passes % repeat == 0:
                yield Counter({dims: count // repeat for dims, count in gradients.items()})
