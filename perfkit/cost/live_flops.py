"""Counts FLOPs of a running program: every op below autograd, backward and recomputation included."""

from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch._ops import HigherOrderOperator

from perfkit.cost.calls.dtypes import BY_TORCH_NAME
from perfkit.cost.calls.op_call import Arg, ComputeUnit, OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op
from perfkit.cost.formulas.attention_mask import UNMASKED
from perfkit.cost.formulas.free_ops import get_free_cost
from perfkit.cost.live_sparse_products import cost_sparse_product, is_sparse
from perfkit.cost.torch_dispatch import TorchDispatchMode, list_modes
from perfkit.cost.torch_fakes import FakeTensor, FakeTensorMode

_PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)

RunOp = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]  # an op, its arguments, those by name


class FlopCount(NamedTuple):
    """FLOPs of a step as run.

    `matrix` are those of matrix products, convolutions and attention. `unmasked` also counts what their kernels leave
    out because a mask forbids it, as MFU and HFU do (PaLM, appendix B). `total` adds element-wise ops,
    reductions, normalisation and the optimizer to `matrix` by the conventions of docs/costing.md. `by_op` splits
    `total`; `matrix_by_op` splits `matrix` by op name, `matrix_by_operands` by that and the operands' dtype.
    `uncounted` are the calls of ops without a formula, or of which data decide how much they do.
    """

    matrix: float
    unmasked: float
    total: float
    by_op: dict[str, float]
    matrix_by_operands: dict[tuple[str, str], float]
    uncounted: dict[str, int]

    @property
    def convention(self) -> str:
        """Additional convention of `unmasked`, as the end of a source; empty where it equals `matrix`."""
        return f"; {UNMASKED}" if self.unmasked > self.matrix else ""

    @property
    def matrix_by_op(self) -> dict[str, float]:
        by_op: dict[str, float] = {}
        for (op, _), flops in self.matrix_by_operands.items():
            by_op[op] = by_op.get(op, 0.0) + flops
        return by_op


def count_flops(step: Callable[[], object]) -> FlopCount:
    """Run `step` once and count its FLOPs.

    A causal mask is counted as its kernel computes it, and in full in `unmasked`. Distributed tensors count as the
    local shard of this rank, and collectives as no FLOPs. Compiled code runs eagerly while it is counted, so that its
    products are seen one by one; what a compiler recomputes of its own accord is not. Fake tensors count if their mode
    is active around this call; otherwise they belong to somebody who only asks for shapes, as the propagation of
    distributed tensors does.
    """
    counter = FlopCounter()
    with torch.compiler.set_stance("force_eager"), counter:
        step()
    return counter.build_count()


def average_counts(weighed: Sequence[tuple[FlopCount, float]]) -> FlopCount:
    """The mean of counts, each of its weight; with calls that are uncounted in the first."""
    whole = sum(weight for _, weight in weighed)
    by_op: dict[str, float] = {}
    by_operands: dict[tuple[str, str], float] = {}
    for count, weight in weighed:
        for name, flops in count.by_op.items():
            by_op[name] = by_op.get(name, 0.0) + flops * weight / whole
        for operands, flops in count.matrix_by_operands.items():
            by_operands[operands] = by_operands.get(operands, 0.0) + flops * weight / whole
    return FlopCount(
        matrix=sum(count.matrix * weight for count, weight in weighed) / whole,
        unmasked=sum(count.unmasked * weight for count, weight in weighed) / whole,
        total=sum(count.total * weight for count, weight in weighed) / whole,
        by_op=by_op,
        matrix_by_operands=by_operands,
        uncounted=weighed[0][0].uncounted,
    )


class CostingMode(TorchDispatchMode):
    """Costs every op that this thread calls below autograd within the context, and reports it to `called`.

    So it sees backward passes and recomputation, too. An op without a formula that is made of others turns into those.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._fakes_count = any(isinstance(mode, FakeTensorMode) for mode in list_modes())

    def called(self, call: OpCall, cost: OpCost | None, result: Any) -> None:
        """Handle an op call; for ops without work of their own, `call` has no arguments."""
        raise NotImplementedError

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.cost_call(func, types, args, kwargs or {}, _run_op, self)

    def cost_call(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...], kwargs: dict[str, Any], run: RunOp, mode: Any
    ) -> Any:
        """Cost a call that `run` runs; the ops that it is made of are called within `mode`, which costs them."""
        # A wrapper (a distributed, quantized or nested tensor) first turns into calls on the tensors it is made of.
        if any(kind not in _PLAIN for kind in types):
            return NotImplemented
        if func.namespace == "prim" or (FakeTensor in types and not self._fakes_count):
            return run(func, args, kwargs)  # a property of a tensor, such as its device; or a shape query
        if isinstance(func, HigherOrderOperator):
            result = run(func, args, kwargs)
            self.called(OpCall(f"{func.namespace}::{func.name()}", ()), None, result)
            return result
        name = func._schema.name
        call, cost = OpCall(name, ()), get_free_cost(name)
        if cost is None:
            call = OpCall(name, _record_arguments(func, args, kwargs))
            stored = FakeTensor not in types and any(map(is_sparse, args))
            cost = cost_sparse_product(name, args) if stored else cost_op(call)
        if cost is None and func._can_decompose():
            with mode:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = run(func, args, kwargs)
        self.called(call, cost, result)
        return result


def _run_op(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(*args, **kwargs)


class FlopCounter(CostingMode):
    """Counts the thread's ops within the context, and those of backward passes that it starts.

    Unlike `count_flops` it leaves torch.compile as it is: what compiled code does inside is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: Counter[tuple[str, OpCost | None]] = Counter()

    def called(self, call: OpCall, cost: OpCost | None, result: Any) -> None:
        """Count the call; `result` is ignored."""
        self._calls[call.name, cost] += 1

    def count_ops(self) -> int:
        """Count the ops so far that do anything: not views."""
        return sum(calls for (_, cost), calls in self._calls.items() if cost is None or cost.flops or cost.bytes)

    def count_calls(self, names: Container[str]) -> int:
        """Count the calls so far of ops with these names."""
        return sum(calls for (name, _), calls in self._calls.items() if name in names)

    def build_count(self) -> FlopCount:
        """Build the count so far."""
        uncounted: Counter[str] = Counter()
        total: dict[str, float] = {}
        matrix: dict[tuple[str, str], float] = {}
        left_out = 0.0
        for (name, cost), calls in self._calls.items():
            if cost is None or cost.flops is None or cost.most_flops is not None:
                uncounted[name] += calls
            elif cost.flops:
                total[name] = total.get(name, 0.0) + cost.flops * calls
                if cost.unit is ComputeUnit.MATRIX:
                    matrix[name, cost.dtype] = matrix.get((name, cost.dtype), 0.0) + cost.flops * calls
                    left_out += ((cost.unmasked_flops or cost.flops) - cost.flops) * calls
        executed = sum(matrix.values())
        return FlopCount(executed, executed + left_out, sum(total.values()), total, matrix, dict(uncounted))


class _SchemaParameter(NamedTuple):
    name: str
    default: Any
    is_out: bool


@lru_cache(maxsize=4096)
def _list_parameters(func: Any) -> tuple[_SchemaParameter, ...]:
    return tuple(
        _SchemaParameter(argument.name, argument.default_value, argument.is_out) for argument in func._schema.arguments
    )


def _record_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Arg, ...]:
    """All arguments in schema order, as a trace records them, without output tensors."""
    arguments = [_describe_argument(value) for value in args]
    return tuple(
        arguments[index]
        if index < len(arguments)
        else _describe_argument(kwargs.get(parameter.name, parameter.default))
        for index, parameter in enumerate(_list_parameters(func))
        if not parameter.is_out
    )


def _describe_argument(value: Any) -> Arg:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return None  # sparse: its dimensions do not give its size
        return TensorArg(tuple(value.shape), tuple(value.stride()), _get_dtype_name(value.dtype))
    if isinstance(value, list | tuple):
        return tuple(_describe_argument(item) for item in value)
    if isinstance(value, torch.dtype):
        known = BY_TORCH_NAME.get(str(value).removeprefix("torch."))
        return known.code if known is not None else None
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.SymInt):
        return int(value)
    return None


@lru_cache(maxsize=64)
def _get_dtype_name(dtype: torch.dtype) -> str:
    known = BY_TORCH_NAME.get(str(dtype).removeprefix("torch."))
    return known.name if known is not None else ""
