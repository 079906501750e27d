"""Costs of ops outside perfkit's table, from torch's FLOP formulas, tags and meta kernels."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from perfkit.cost.calls.args import (
    count_output_bytes,
    count_read_bytes,
    infer_result_dtype,
    make_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.dtypes import BY_NAME, BY_TORCH_NAME
from perfkit.cost.calls.op_call import Arg, ComputeUnit, OpCall, OpCost, TensorArg

# Errors of a meta kernel for invalid arguments; recorded arguments may be incomplete.
_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError, NotImplementedError, AttributeError)


def cost_with_torch(call: OpCall) -> OpCost | None:
    """FLOPs of ops in torch's FLOP registry (third parties add theirs with `register_flop_formula`), bytes of those and
    of ops tagged as element-wise. None for every other op, and where the arguments do not suffice.
    """
    packet = _find_packet(call.name)
    if packet is None:
        return None
    registered = flop_registry.get(packet)
    for overload in _find_candidates(packet, call):
        if registered is None and (torch.Tag.pointwise not in overload.tags or overload._can_decompose()):
            continue  # a composition of other ops is costed by them
        inputs = tuple(walk_tensors(call.args))
        try:
            args, kwargs = _build_meta_arguments(overload, call.args)
            outputs = overload(*args, **kwargs)
            flops = float(registered(*args, **kwargs, out_val=outputs)) if registered is not None else None
        except _REFUSALS:
            continue
        written = sum(count_output_bytes(numel(output), output.dtype) for output in _describe_outputs(outputs))
        unit = ComputeUnit.MATRIX if registered is not None else ComputeUnit.VECTOR
        source = "torch.utils.flop_counter" if registered is not None else "meta kernel"
        return make_cost(flops, count_read_bytes(*inputs) + written, unit, infer_result_dtype(inputs), source)
    return None


def _find_packet(name: str) -> Any:
    namespace, _, op = name.partition("::")
    try:
        return getattr(getattr(torch.ops, namespace), op)
    except (AttributeError, RuntimeError):
        return None


def _find_candidates(packet: Any, call: OpCall) -> Iterator[Any]:
    """Overloads with as many arguments as recorded, without those that write into a given tensor."""
    for name in packet.overloads():
        overload = getattr(packet, name)
        schema = overload._schema
        if len(schema.arguments) == len(call.args) and not any(argument.is_out for argument in schema.arguments):
            yield overload


def _build_meta_arguments(overload: Any, recorded: tuple[Arg, ...]) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument, value in zip(overload._schema.arguments, recorded, strict=True):
        rebuilt = _rebuild_argument(value, str(argument.type))
        if argument.kwarg_only:
            kwargs[argument.name] = rebuilt
        else:
            args.append(rebuilt)
    return args, kwargs


def _rebuild_argument(value: Arg, kind: str) -> Any:
    if isinstance(value, TensorArg):
        dtype = getattr(torch, BY_NAME[value.dtype].torch_name) if value.dtype in BY_NAME else torch.float32
        return torch.empty_strided(value.shape, value.stride, dtype=dtype, device="meta")
    if isinstance(value, tuple):
        return [_rebuild_argument(item, kind) for item in value]
    if "ScalarType" in kind or "Device" in kind or "Layout" in kind:
        return None
    return value


def _describe_outputs(outputs: Any) -> Iterator[TensorArg]:
    if isinstance(outputs, torch.Tensor):
        name = str(outputs.dtype).removeprefix("torch.")
        dtype = BY_TORCH_NAME[name].name if name in BY_TORCH_NAME else ""
        yield TensorArg(tuple(outputs.shape), tuple(outputs.stride()), dtype)
    elif isinstance(outputs, tuple | list):
        for output in outputs:
            yield from _describe_outputs(output)
