"""Costs of ops outside our own table, from what torch knows: registered FLOP formulas, tags and meta kernels."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from perfkit.cost.args import all_tensors, cost, numel, out_bytes, read_bytes, result_dtype
from perfkit.cost.call import Arg, OpCall, OpCost, TensorArg, Unit
from perfkit.cost.dtypes import BY_NAME, BY_TORCH_NAME

# What a meta kernel raises for arguments it does not accept; recorded arguments may be incomplete.
_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError, NotImplementedError, AttributeError)


def torch_cost(call: OpCall) -> OpCost | None:
    """FLOPs of ops in torch's FLOP registry (third parties add theirs with `register_flop_formula`), bytes of those and
    of ops tagged as element-wise. None for every other op, and where the arguments do not suffice.
    """
    packet = _packet(call.name)
    if packet is None:
        return None
    registered = flop_registry.get(packet)
    for overload in _candidates(packet, call):
        if registered is None and (torch.Tag.pointwise not in overload.tags or overload._can_decompose()):
            continue  # a composition of other ops is costed by them
        inputs = tuple(all_tensors(call.args))
        try:
            args, kwargs = _meta_arguments(overload, call.args)
            outputs = overload(*args, **kwargs)
            flops = float(registered(*args, **kwargs, out_val=outputs)) if registered is not None else None
        except _REFUSALS:
            continue
        written = sum(out_bytes(numel(output), output.dtype) for output in _described(outputs))
        unit = Unit.MATRIX if registered is not None else Unit.VECTOR
        source = "torch.utils.flop_counter" if registered is not None else "meta kernel"
        return cost(flops, read_bytes(*inputs) + written, unit, result_dtype(inputs), source)
    return None


def _packet(name: str) -> Any:
    namespace, _, op = name.partition("::")
    try:
        return getattr(getattr(torch.ops, namespace), op)
    except (AttributeError, RuntimeError):
        return None


def _candidates(packet: Any, call: OpCall) -> Iterator[Any]:
    """Overloads with as many arguments as were recorded, those that write into a given tensor left out."""
    for name in packet.overloads():
        overload = getattr(packet, name)
        schema = overload._schema
        if len(schema.arguments) == len(call.args) and not any(argument.is_out for argument in schema.arguments):
            yield overload


def _meta_arguments(overload: Any, recorded: tuple[Arg, ...]) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument, value in zip(overload._schema.arguments, recorded, strict=True):
        rebuilt = _rebuild(value, str(argument.type))
        if argument.kwarg_only:
            kwargs[argument.name] = rebuilt
        else:
            args.append(rebuilt)
    return args, kwargs


def _rebuild(value: Arg, kind: str) -> Any:
    if isinstance(value, TensorArg):
        dtype = getattr(torch, BY_NAME[value.dtype].torch_name) if value.dtype in BY_NAME else torch.float32
        return torch.empty_strided(value.shape, value.stride, dtype=dtype, device="meta")
    if isinstance(value, tuple):
        return [_rebuild(item, kind) for item in value]
    if "ScalarType" in kind or "Device" in kind or "Layout" in kind:
        return None
    return value


def _described(outputs: Any) -> Iterator[TensorArg]:
    if isinstance(outputs, torch.Tensor):
        name = str(outputs.dtype).removeprefix("torch.")
        dtype = BY_TORCH_NAME[name].name if name in BY_TORCH_NAME else ""
        yield TensorArg(tuple(outputs.shape), tuple(outputs.stride()), dtype)
    elif isinstance(outputs, tuple | list):
        for output in outputs:
            yield from _described(output)
