"""Shapes of an op's inputs, for people."""

from collections.abc import Iterable

from perfkit.cost.calls.op_call import Arg, TensorArg


def show_shapes(args: Iterable[Arg]) -> str:
    """The tensors among the arguments: `fp32[32,64] fp32[64,256]`; a list of many shows its first and their number."""
    parts = []
    for value in args:
        if isinstance(value, TensorArg):
            parts.append(_show_tensor(value))
        elif isinstance(value, tuple):
            tensors = [item for item in value if isinstance(item, TensorArg)]
            if tensors:
                parts.append(_show_tensor(tensors[0]) + (f" x{len(tensors)}" if len(tensors) > 1 else ""))
    return " ".join(parts)


def _show_tensor(value: TensorArg) -> str:
    return f"{value.dtype or '?'}[{','.join(str(size) for size in value.shape)}]"
