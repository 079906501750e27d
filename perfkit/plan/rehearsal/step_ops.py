"""Records the ops, collectives and pages of a step on fake tensors, in issue order."""

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from perfkit.core.record.trace_marks import MARK_PREFIX, PHASES
from perfkit.cost.calls.args import count_read_bytes, walk_tensors
from perfkit.cost.calls.collective import CollectiveType, Message
from perfkit.cost.calls.op_call import OpCall, OpCost
from perfkit.cost.formulas.free_ops import is_free
from perfkit.cost.live_collectives import count_tensor_bytes, describe_exchange
from perfkit.cost.live_flops import CostingMode, RunOp
from perfkit.cost.op_class import classify_op
from perfkit.cost.torch_dispatch import tree_leaves
from perfkit.devices.ceilings.peak import Fp32Settings
from perfkit.instruments.training.tensors import shorten_dtype
from perfkit.plan.rehearsal.compiled_code import RUN_KERNEL
from perfkit.plan.rehearsal.compiled_updates import in_fused_update
from perfkit.plan.rehearsal.libraries.attention_kernels import AttentionKernels
from perfkit.plan.rehearsal.libraries.convolution_columns import make_columns
from perfkit.plan.rehearsal.libraries.layout_copies import make_layout_copy
from perfkit.plan.rehearsal.op_watcher import RANGE_BEGINS, RANGE_ENDS
from perfkit.plan.target.disk import find_mount
from perfkit.plan.target.fake_disk import PageMove
from perfkit.plan.target.fake_host import FakeHostPage
from perfkit.plan.target.work import Work, make_work
from perfkit.trace.model import COMPILED_GRAPH

_READ = "aten::_local_scalar_dense"  # `.item()`
_PHASE_OF_MARK = {MARK_PREFIX + phase: phase for phase in PHASES}


class Issuer(StrEnum):
    """Code that issues a kernel: eager calls, compiled code, or a CUDA graph with many others."""

    EAGER = "eager"
    COMPILED = "compiled"
    GRAPH = "graph"


class StepOp(NamedTuple):
    """A call of an op with work: no view, no allocation.

    `within`: kernels that a library may run within the call before, at its own choice; they cost the host nothing.
    """

    work: Work
    phase: str
    within: bool = False
    issuer: Issuer = Issuer.EAGER


class StepGraphCall(NamedTuple):
    """A call of a compiled graph, which computes nothing but by its kernels."""

    phase: str


class StepCollective(NamedTuple):
    """A collective of the ranks of a `group`.

    `functional`: the result is awaited at its first use. `summed`: an all-reduce that a switch could do.
    """

    message: Message
    ranks: int
    phase: str
    functional: bool = False
    group: str = ""
    summed: bool = False


class StepPage(NamedTuple):
    """A page of offloaded tensors that is written to a file (`writes`) or read.

    `mount` is the mount point of the file.
    """

    bytes: int
    writes: bool
    mount: str
    phase: str


class StepCopy(NamedTuple):
    """A page copied from a GPU to its host (`out`) or back."""

    page: FakeHostPage
    out: bool
    phase: str


Issued = StepOp | StepGraphCall | StepCollective | StepPage | StepCopy


class StepOps(CostingMode):
    """Records in `issued` what is called while entered: within a mode of fake tensors, as it would be on a device.

    `fp32` are the GPU's settings for fp32 products; None if computed in fp32. `turns_images`: its library of
    convolutions turns 16-bit images channels-last. `on_cpu`: convolutions take the paths of this CPU, and the loops of
    a compiled kernel are one. `replays`: compiled code is replayed as CUDA graphs. `host_updates`:
    ops of the update are left out, since the host computes them.

    An op without a formula is assumed to read its operands and write its results once. If data decide an op's work
    (rows per expert, sequence lengths), the maximum is used.
    """

    def __init__(
        self,
        fp32: Fp32Settings | None = None,
        *,
        turns_images: bool = False,
        on_cpu: bool = False,
        replays: bool = False,
        host_updates: bool = False,
    ) -> None:
        super().__init__()
        self._host_updates = host_updates
        self._on_cpu = on_cpu
        self._compiled = Issuer.GRAPH if replays else Issuer.COMPILED
        self._turns_images = turns_images
        self.issued: list[Issued] = []
        self._fp32 = fp32
        self._marks: list[str] = []
        self._attention = AttentionKernels()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code is recorded as it runs."""
        return True

    def cost_call(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...], kwargs: dict[str, Any], run: RunOp, mode: Any
    ) -> Any:
        if func is RUN_KERNEL:
            self._record_kernel(*args)
            return run(func, args, kwargs)
        result = super().cost_call(func, types, args, kwargs, run, mode)
        if func is RANGE_BEGINS:
            self._marks.append(args[0])
            if args[0] == COMPILED_GRAPH:
                self.issued.append(StepGraphCall(self._get_phase()))
        elif func is RANGE_ENDS:
            self._marks.pop()
        elif result is not NotImplemented and (exchange := describe_exchange(func, args, result)) is not None:
            self.issued.append(
                StepCollective(
                    message=exchange.message,
                    ranks=exchange.ranks,
                    phase=self._get_phase(),
                    functional=exchange.functional,
                    group=exchange.group,
                    summed=exchange.message.kind is CollectiveType.ALL_REDUCE and _is_summed(args),
                )
            )
        elif result is not NotImplemented:
            self._record_convolution(func, args, result)
            if not self._on_cpu and (op := self._attention.find_op(func, args, result)) is not None:
                self._rename_last_op(op)
        return result

    def _rename_last_op(self, name: str) -> None:
        last = self.issued[-1]
        assert isinstance(last, StepOp), "the op was issued just now"
        self.issued[-1] = last._replace(work=last.work._replace(op=name))

    def _record_convolution(self, func: Any, args: Sequence[Any], result: Any) -> None:
        """Record what a convolution does besides its products."""
        if self._turns_images and (copy := make_layout_copy(func, args, result)) is not None:
            self._append_op(copy, within=True)
        if self._on_cpu and (columns := make_columns(func, args, result)) is not None:
            self._append_op(columns)

    def _record_kernel(self, name: str, loops: Sequence[int], operands: Sequence[torch.Tensor]) -> None:
        dtype = shorten_dtype(operands[0].dtype)
        for moved in [sum(loops)] if self._on_cpu else loops:
            self._append_op(Work(classify_op(name), dtype, 0.0, moved, matrix=False, op=name))

    def _append_op(self, work: Work, *, within: bool = False) -> None:
        issuer = self._compiled if COMPILED_GRAPH in self._marks else Issuer.EAGER
        self.issued.append(StepOp(work, self._get_phase(), within, issuer))

    def called(self, call: OpCall, cost: OpCost | None, result: Any) -> None:
        """Record a call, if it has work.

        A GPU computes nothing where the program reads a number: an optimizer's counts of steps are the host's, and
        waits for others are not modeled.
        """
        if in_fused_update.get() or is_free(call.name) or (self._fp32 is not None and call.name == _READ):
            return
        if self._host_updates and self._get_phase() == "optimizer":
            return
        self._append_op(_model_work(call, cost, self._fp32) or _make_traffic_work(call, result))

    def record_page(self, page: PageMove) -> None:
        """Record a moved page."""
        self.issued.append(StepPage(page.bytes, page.writes, find_mount(page.folder), self._get_phase()))

    def record_copy(self, page: FakeHostPage, out: bool) -> None:
        """Record a copy to the host, or back."""
        self.issued.append(StepCopy(page, out, self._get_phase()))

    def _get_phase(self) -> str:
        return next((_PHASE_OF_MARK[mark] for mark in reversed(self._marks) if mark in _PHASE_OF_MARK), "")


# What NVSwitch sums of floating-point numbers (`ncclNvlsSupported`, src/include/comm.h of NCCL).
_SUMMED_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _is_summed(args: Sequence[Any]) -> bool:
    """True if an all-reduce with these arguments is a sum that a switch can compute.

    c10d's op does not expose its reduction to Python: a sum is assumed, as for DDP.
    """
    dtypes = {leaf.dtype for leaf in tree_leaves(args[0]) if isinstance(leaf, torch.Tensor)}
    by = args[1] if isinstance(args[1], str) else "sum"
    return by == "sum" and dtypes.issubset(_SUMMED_DTYPES)


@lru_cache(maxsize=65536)
def _model_work(call: OpCall, cost: OpCost | None, fp32: Fp32Settings | None) -> Work | None:
    if cost is None:
        return None
    most = cost._replace(flops=cost.most_flops or cost.flops, bytes=cost.most_bytes or cost.bytes)
    return make_work(call, most, fp32)


def _make_traffic_work(call: OpCall, result: Any) -> Work:
    tensors = tuple(walk_tensors(call.args))
    dtype = tensors[0].dtype if tensors else ""
    return Work(
        classify_op(call.name),
        dtype,
        0.0,
        count_read_bytes(*tensors) + count_tensor_bytes(result),
        matrix=False,
        op=call.name,
    )
