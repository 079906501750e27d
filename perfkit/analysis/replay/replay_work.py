"""The work of a graph, selected by the words in which a change names it: op, kernel, class, module and phase."""

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model import time_split
from perfkit.analysis.model.replay import ATTENTION, GEMM, OTHER_KERNELS
from perfkit.analysis.replay.edges import Flags
from perfkit.analysis.trace.work.kernel_class import classify_kernel
from perfkit.core.record.trace_marks import PHASES
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.op_class import classify_op
from perfkit.trace.model import NONE, Category, Ints
from perfkit.trace.ops.kernels import is_collective_kernel
from perfkit.trace.ops.ops import Ops

# Words for several classes at once, and common names of one.
WORDS: dict[str, tuple[OpClass, ...]] = {
    "gemm": (OpClass.MATMUL, OpClass.CONVOLUTION),
    "attention": (OpClass.ATTENTION,),
    "elementwise": (OpClass.POINTWISE,),
    "pointwise": (OpClass.POINTWISE,),
    "norm": (OpClass.NORM,),
    "softmax": (OpClass.SOFTMAX,),
    "reduction": (OpClass.REDUCTION,),
    "loss": (OpClass.LOSS,),
    "optimizer": (OpClass.OPTIMIZER,),
    "indexing": (OpClass.INDEX,),
    "convolution": (OpClass.CONVOLUTION,),
    "compiled": (OpClass.COMPILED,),
}
KERNELS, COMMUNICATION, COPIES = "kernels", "comm", "copies"

_ON_A_PATH = (
    ("gemm", GEMM),
    ("attention", ATTENTION),
    (COMMUNICATION, time_split.COMMUNICATION),
    (COPIES, time_split.COPIES),
)


@dataclass(frozen=True)
class ReplayWork:
    """Columns, one row a piece of work: kernels of `Ops` on a device, without one its ops.

    `name` and `op` index the trace's names (`op` NONE where no op is known), `owner` is the row of that op.
    """

    ops: Ops
    on_device: bool
    name: Ints
    op: Ints
    owner: Ints
    phase: Ints
    module: Ints
    category: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.name)

    def select_work(self, what: str) -> Flags:
        """The pieces that `what` names: a word, `module:` or `phase:` with a pattern, or a pattern of op or kernel
        names."""
        collective = self._collective
        copies: Flags = (self.category == Category.COPY) | (self.category == Category.FILL)
        if what == COMMUNICATION:
            return collective
        if what == COPIES:
            return copies
        if what == KERNELS:
            both: Flags = ~(collective | copies)
            return both
        if what in WORDS:
            of_kind: Flags = np.isin(self.classes, [_CLASSES.index(kind) for kind in WORDS[what]])
            return of_kind & ~(collective | copies)
        label, _, pattern = what.partition(":")
        if label == "phase":
            chosen = [number for number, phase in enumerate(PHASES) if fnmatchcase(phase, pattern)]
            in_phase: Flags = np.isin(self.phase, chosen)
            return in_phase
        if label == "module":
            within = (fnmatchcase(path, pattern) or fnmatchcase(path, f"{pattern}/*") for path in self.ops.modules)
            of_module = np.asarray([*within, False])
            inside: Flags = of_module[self.module]
            return inside
        return self._match_names(self.op, lambda name: fnmatchcase(name, what)) | self._match_names(
            self.name, lambda name: fnmatchcase(name, what)
        )

    @cached_property
    def kinds(self) -> NDArray[np.object_]:
        """The type of each piece on a critical path."""
        kinds = np.full(len(self), OTHER_KERNELS, object)
        for what, kind in _ON_A_PATH:
            kinds[self.select_work(what)] = kind
        return kinds

    @cached_property
    def _collective(self) -> Flags:
        mask: Flags = self._match_names(self.name, is_collective_kernel) | self._match_names(self.op, _is_communication)
        return mask

    @cached_property
    def classes(self) -> NDArray[np.int8]:
        """The class of each piece, as an index into `OpClass`: by its op, else by its kernel."""
        of_op = self._classify_names(self.op, classify_op)
        other = of_op == _CLASSES.index(OpClass.OTHER)
        by_kernel = self._classify_names(self.name, classify_kernel)
        result: NDArray[np.int8] = np.where(other, by_kernel, of_op)
        return result

    def _classify_names(self, column: Ints, of: Callable[[str], OpClass]) -> NDArray[np.int8]:
        names = self.ops.trace.names
        used = np.unique(column[column != NONE])
        table = np.full(len(names) + 1, _CLASSES.index(OpClass.OTHER), np.int8)
        table[used] = [_CLASSES.index(of(names[index])) for index in used.tolist()]
        return table[column]

    def _match_names(self, column: Ints, fits: Callable[[str], bool]) -> Flags:
        names = self.ops.trace.names
        used = np.unique(column[column != NONE])
        table = np.zeros(len(names) + 1, np.bool_)
        table[used] = [fits(names[index]) for index in used.tolist()]
        return table[column]


_CLASSES = list(OpClass)


def collect_work(ops: Ops) -> ReplayWork:
    """The pieces of a trace."""
    trace, kernels = ops.trace, ops.kernels
    names = trace.name[ops.event].astype(np.int64)
    if len(kernels):
        event = kernels.event
        owner = ops.kernel_owner.astype(np.int64)
        return ReplayWork(
            ops, True, trace.name[event].astype(np.int64), np.append(names, NONE)[owner], owner,
            ops.kernel_phase.astype(np.int64), ops.kernel_module.astype(np.int64), trace.category[event],
        )  # fmt: skip
    return ReplayWork(
        ops, False, names, names, np.arange(len(ops)), ops.phase.astype(np.int64), ops.module.astype(np.int64),
        trace.category[ops.event],
    )  # fmt: skip


def _is_communication(name: str) -> bool:
    return classify_op(name) == OpClass.COMMUNICATION
