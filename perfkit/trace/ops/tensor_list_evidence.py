"""Evidence for the dtype of a tensor list: tensors and kernels around and beneath the op.

Ops in the same surroundings have the same answer, so that it is looked for once for each distinct surroundings.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.cost.calls.args import Args
from perfkit.cost.calls.dtypes import UNKNOWN
from perfkit.cost.calls.op_call import OpCall
from perfkit.trace.event_names import mark_named
from perfkit.trace.event_nesting import sort_by_group
from perfkit.trace.model import NONE, Ints, Trace
from perfkit.trace.ops import tensor_list_dtypes
from perfkit.trace.ops.signatures import parse_arguments


class TensorListEvidence:
    """The arguments of ops (rows in the order of time), and the dtypes of lists among them."""

    def __init__(
        self, trace: Trace, event: Ints, parent: Ints, kernel_op: Ints, kernel_name: NDArray[np.int32]
    ) -> None:
        self._trace = trace
        self._event = event
        self._parent = parent
        self._kernel_op = kernel_op
        self._kernel_name = kernel_name
        self._arguments: dict[int, Args] = {NONE: ()}

    def get_arguments(self, signature: int) -> Args:
        """The arguments of a signature (an index into the trace's); none where they were not recorded."""
        if signature not in self._arguments:
            self._arguments[signature] = parse_arguments(self._trace.signatures[signature]) or ()
        return self._arguments[signature]

    def find_inner_calls(self, row: int, names: frozenset[str]) -> tuple[OpCall, ...]:
        """The calls of these ops beneath an op, in the order of time."""
        first, last = self._locate_nests(np.asarray([row]))
        calls = []
        for inner in self._order[int(first[0]) + 1 : int(last[0])].tolist():
            name = self._trace.names[int(self._trace.name[self._event[inner]])]
            if name in names:
                calls.append(OpCall(name, self.get_arguments(int(self._trace.signature[self._event[inner]]))))
        return tuple(calls)

    def group_contexts(self, rows: Ints) -> tuple[Ints, Ints]:
        """Rows with the same name, signature and surroundings: an example of each kind, and the kind of each row."""
        signature = self._trace.signature[self._event]
        mark = _draw_marks(len(self._trace.signatures) + 1, seed=1)
        print_of = mark[signature[rows]] * _ODD[0] + self._trace.name[self._event[rows]].astype(np.uint64) * _ODD[1]
        above = self._parent[rows]
        inside = np.arange(len(rows))
        while len(inside):
            inside, above = inside[above != NONE], above[above != NONE]
            print_of[inside] += mark[signature[above]] * _ODD[2]
            above = self._parent[above]
        first, last = self._locate_nests(rows)
        print_of += _sum_between(mark[signature[self._order]], first, last) * _ODD[3]
        first, last = self._locate_kernels(first, last)
        names = _draw_marks(len(self._trace.names), seed=2)[self._kernel_name[self._kernel_order]]
        print_of += _sum_between(names, first, last) * _ODD[4]
        _, example, kind = np.unique(print_of, return_index=True, return_inverse=True)
        return rows[example], kind

    def infer_dtype(self, row: int) -> str:
        """The dtype of the lists among an op's arguments, unknown where the evidence does not decide."""
        signature = self._trace.signature[self._event]
        shapes = tensor_list_dtypes.find_unknown_shapes(self.get_arguments(int(signature[row])))
        if not shapes:
            return UNKNOWN
        near: tensor_list_dtypes.Evidence = {}
        outer = int(self._parent[row])
        while outer != NONE:
            tensor_list_dtypes.collect_dtypes(near, self.get_arguments(int(signature[outer])))
            outer = int(self._parent[outer])
        first, last = self._locate_nests(np.asarray([row]))
        for inner in np.unique(signature[self._order[int(first[0]) : int(last[0])]]).tolist():
            tensor_list_dtypes.collect_dtypes(near, self.get_arguments(inner))
        first, last = self._locate_kernels(first, last)
        kernels = np.unique(self._kernel_name[self._kernel_order[int(first[0]) : int(last[0])]]).tolist()
        names = [self._trace.names[name] for name in kernels]
        dtypes = (
            tensor_list_dtypes.infer_from_shapes(self._collect_worked_on(row), shapes)
            or tensor_list_dtypes.infer_from_shapes(near, shapes)
            or tensor_list_dtypes.infer_from_kernels(names)
            or tensor_list_dtypes.infer_from_shapes(self._gradients, shapes)
            or tensor_list_dtypes.infer_from_shapes(self._everywhere, shapes)
        )
        return tensor_list_dtypes.adjust_to_kernels(dtypes, names)

    def _collect_worked_on(self, row: int) -> tensor_list_dtypes.Evidence:
        """The first arguments of direct calls: a list's tensors one by one, no converted numbers."""
        evidence: tensor_list_dtypes.Evidence = {}
        first, last = self._locate_nests(np.asarray([row]))
        inside = self._order[int(first[0]) + 1 : int(last[0])]
        signature = self._trace.signature[self._event]
        for inner in np.unique(signature[inside[self._parent[inside] == row]]).tolist():
            tensor_list_dtypes.collect_dtypes(evidence, self.get_arguments(inner)[:1])
        return evidence

    @cached_property
    def _gradients(self) -> tensor_list_dtypes.Evidence:
        """Gradients as autograd accumulates them, with the dtypes and shapes of the parameters."""
        evidence: tensor_list_dtypes.Evidence = {}
        accumulating = mark_named(self._trace, self._event, "torch::autograd::AccumulateGrad".__eq__)
        for signature in np.unique(self._trace.signature[self._event[accumulating]]).tolist():
            tensor_list_dtypes.collect_dtypes(evidence, self.get_arguments(signature))
        return evidence

    @cached_property
    def _everywhere(self) -> tensor_list_dtypes.Evidence:
        evidence: tensor_list_dtypes.Evidence = {}
        for signature in range(len(self._trace.signatures)):
            tensor_list_dtypes.collect_dtypes(evidence, self.get_arguments(signature))
        return evidence

    @cached_property
    def _order(self) -> Ints:
        """Rows by thread and time, in which nested rows follow their op."""
        return sort_by_group(self._trace.thread[self._event])

    @cached_property
    def _rank(self) -> Ints:
        rank = np.empty(len(self._order), np.int64)
        rank[self._order] = np.arange(len(self._order))
        return rank

    @cached_property
    def _kernel_order(self) -> Ints:
        """Linked kernels in the order of their ops."""
        linked = np.flatnonzero(self._kernel_op != NONE)
        return linked[np.argsort(self._rank[self._kernel_op[linked]], kind="stable")]

    @cached_property
    def _kernel_ranks(self) -> Ints:
        return self._rank[self._kernel_op[self._kernel_order]]

    @cached_property
    def _threads(self) -> NDArray[np.int32]:
        return self._trace.thread[self._event[self._order]]

    @cached_property
    def _starts(self) -> Ints:
        return self._trace.start_ns[self._event[self._order]]

    def _locate_nests(self, rows: Ints) -> tuple[Ints, Ints]:
        """The range in `_order` of each row and its nested rows."""
        first = self._rank[rows]
        last = first + 1
        threads, starts = self._threads, self._starts
        its_thread, its_end = threads[first], self._trace.end_ns[self._event[rows]]
        for thread in np.unique(its_thread).tolist():
            begin, end = np.searchsorted(threads, thread, "left"), np.searchsorted(threads, thread, "right")
            mine = its_thread == thread
            last[mine] = begin + np.searchsorted(starts[begin:end], its_end[mine], "left")
        return first, np.maximum(last, first + 1)

    def _locate_kernels(self, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """The range in `_kernel_order` of the kernels of a run of ops."""
        return np.searchsorted(self._kernel_ranks, first, "left"), np.searchsorted(self._kernel_ranks, last, "left")


def _draw_marks(count: int, seed: int) -> NDArray[np.uint64]:
    """Random numbers, whose sums distinguish sets of small numbers."""
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


_ODD = _draw_marks(5, seed=0) | np.uint64(1)


def _sum_between(values: NDArray[np.uint64], first: Ints, last: Ints) -> NDArray[np.uint64]:
    """Sums of runs of values, modulo 2**64."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    sums: NDArray[np.uint64] = total[last] - total[first]
    return sums
