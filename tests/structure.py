"""Counts what the source should not have; each function returns the places, as file and line."""

import ast
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("perfkit", "cli", "reports")

_SEAM = "perfkit/devices/accelerator"
_DEVICE_TYPES = frozenset({"cuda", "cpu", "xpu", "mps", "mtia", "hip", "hpu", "npu", "rocm"})
_ROWS = frozenset({"CUDA", "ROCM", "XPU", "MPS", "CPU"})


def count_device_comparisons() -> list[tuple[str, int]]:
    """The places outside the accelerator seam that compare a device type with a string."""
    return [
        (file, getattr(node, "lineno", 0))
        for file, tree in _parse_source()
        if not file.startswith(_SEAM)
        for node in ast.walk(tree)
        if compares_device_type(node)
    ]


def compares_device_type(node: ast.AST) -> bool:
    """True for `==`, `in`, `startswith`, a `match` case and a look-up in a literal, with a device type or with a
    collection of nothing else, and for a constant that is one.

    A string that is passed on (`torch.device("cpu")`) is not compared, nor is a collection that has other words too.
    """
    match node:
        case ast.Compare():
            return any(map(_is_device_type, (node.left, *node.comparators)))
        case ast.Call(func=ast.Attribute(attr="startswith")):
            return any(map(_is_device_type, node.args))
        case (
            ast.Call(func=ast.Attribute(value=ast.Dict(keys=keys), attr="get"))
            | ast.Subscript(value=ast.Dict(keys=keys))
        ):
            return any(key is not None and _is_device_type(key) for key in keys)
        case ast.MatchValue():
            return _is_device_type(node.value)
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.isupper() and _is_device_type(node.value)
        case _:
            return False


def _is_device_type(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return text.partition(":")[0] in _DEVICE_TYPES
        case ast.Attribute(value=ast.Name(id=name), attr="type" | "kind"):
            return name in _ROWS
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return bool(elements) and all(isinstance(each, ast.Constant) and _is_device_type(each) for each in elements)
        case _:
            return False


def _parse_source() -> Iterator[tuple[str, ast.Module]]:
    for package in _PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            yield path.relative_to(_ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))
