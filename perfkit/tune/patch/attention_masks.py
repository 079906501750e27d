"""Masks of attention in source: where a score counts, and minus infinity that is added elsewhere."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst
from libcst import matchers

from perfkit.tune.patch.training_code import TrainingCode, list_called, list_calls, render

_MINUS_INFINITY = ("float('-inf')", 'float("-inf")', "-float('inf')", '-float("inf")', "-torch.inf", "-math.inf")


class Mask(NamedTuple):
    """What attention takes as a mask, in source, and the tensor that it is made of."""

    text: str
    buffer: cst.BaseExpression


def read_mask(value: cst.BaseExpression, name: str) -> Mask | None:
    """The mask of `scores.masked_fill(buffer == 0, float("-inf"))`: where scores count."""
    match value:
        case cst.Call(
            func=cst.Attribute(value=cst.Name(left), attr=cst.Name("masked_fill" | "masked_fill_")),
            args=[cst.Arg(value=condition, keyword=None), cst.Arg(value=fill, keyword=None)],
        ) if left == name and render(fill) in _MINUS_INFINITY:
            match condition:
                case cst.Comparison(
                    left=buffer, comparisons=[cst.ComparisonTarget(operator=cst.Equal(), comparator=cst.Integer("0"))]
                ):
                    return Mask(f"{render(buffer)} != 0", buffer)
    return None


def read_added_mask(value: cst.BaseExpression, added: set[str]) -> tuple[cst.BaseExpression, Mask | None]:
    """A value without the mask that is added to it, which is one of the names in `added`, and that mask."""
    match value:
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=cst.Name(name) as mask) if name in added:
            return left, Mask(name, mask)
    return value, None


def list_added_masks(code: TrainingCode) -> set[str]:
    """The names that are only ever assigned tensors of minus infinity in a triangle, which are added to scores.

    Attention adds a mask of floats, and reads one of booleans otherwise: a name that is anything else is none.
    """
    assigns = matchers.findall(code.module, matchers.Assign(targets=[matchers.AssignTarget(matchers.Name())]))
    masks = Counter(
        render(each.targets[0].target)
        for each in assigns
        if isinstance(each, cst.Assign) and _is_infinite_triangle(code, each.value)
    )
    stored = code.count_stored()
    return {name for name, count in masks.items() if count == stored[name]}


def _is_infinite_triangle(code: TrainingCode, value: cst.BaseExpression) -> bool:
    """True for `torch.full(size, float("-inf")).triu(1)` and `torch.triu(torch.full(...), 1)`."""
    match value:
        case cst.Call(func=cst.Attribute(value=cst.Call() as full, attr=cst.Name("triu"))):
            pass
        case cst.Call(args=[cst.Arg(value=cst.Call() as full), *_]) if code.find_name(value.func) == "torch.triu":
            pass
        case _:
            return False
    filled = [render(arg.value) for arg in full.args]
    return code.find_name(full.func) == "torch.full" and len(filled) >= 2 and filled[1] in _MINUS_INFINITY


def list_causal_buffers(code: TrainingCode) -> Iterator[str]:
    """The sources `self.NAME` of buffers that are lower triangles of ones."""
    for call in list_calls(code.module):
        if list_called(call)[:1] == ["self.register_buffer"] and len(call.args) >= 2:
            name, value = call.args[0].value, call.args[1].value
            if isinstance(name, cst.SimpleString) and _is_triangle(code, value):
                yield f"self.{name.raw_value}"


def _is_triangle(code: TrainingCode, value: cst.BaseExpression) -> bool:
    """True for `torch.tril(torch.ones(...))`, also with a view of it."""
    match value:
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("view" | "reshape" | "unsqueeze"))):
            return _is_triangle(code, inner)
        case cst.Call(args=[cst.Arg(value=cst.Call() as ones)]):
            return code.find_name(value.func) == "torch.tril" and code.find_name(ones.func) == "torch.ones"
    return False


def is_causal(buffer: cst.BaseExpression, causal: set[str]) -> bool:
    """True for `self.bias[:, :, :T, :T]` of a lower triangle: as many queries as keys, both from the first on."""
    if not isinstance(buffer, cst.Subscript) or render(buffer.value) not in causal:
        return False
    slices = [render(element.slice) for element in buffer.slice]
    return len(slices) >= 2 and slices[-1] == slices[-2] and slices[-1].startswith(":") and set(slices[:-2]) <= {":"}
