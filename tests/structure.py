"""Counts what the source should not have: `python -m tests.structure` prints how often, and where."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_PACKAGES = ("perfkit", "cli", "reports")
_MOST_FILES = 25  # in a folder

_SEAM = "perfkit/devices/accelerator"
_DEVICE_TYPES = frozenset({"cuda", "cpu", "xpu", "mps", "mtia", "hip", "hpu", "npu", "rocm"})
_ROWS = frozenset({"CUDA", "ROCM", "XPU", "MPS", "CPU"})


def count_device_comparisons() -> list[tuple[str, int]]:
    """The places outside the accelerator seam that compare a device type with a string."""
    return [
        (file, getattr(node, "lineno", 0))
        for file, nodes in list_nodes().items()
        if not file.startswith(_SEAM)
        for node in nodes
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


def find_folder_cycles() -> list[list[str]]:
    """Folders whose own modules import each other in a circle, by absolute imports anywhere in a module.

    A package's `__init__` is left out: the API in that of `perfkit` names modules of all packages.
    """
    modules = {_name_module(file): nodes for file, nodes in list_nodes().items() if not file.endswith("__init__.py")}
    imports: dict[str, set[str]] = defaultdict(set)
    for module, nodes in modules.items():
        folder = module.rpartition(".")[0]
        imports[folder] |= {name.rpartition(".")[0] for name in _list_imports(nodes) if name in modules} - {folder}
    return _find_circles(imports)


def list_crowded_folders() -> list[tuple[str, int]]:
    """Folders with more modules than are read at a glance."""
    files: dict[str, int] = defaultdict(int)
    for file in _list_files():
        files[file.rpartition("/")[0]] += not file.endswith("__init__.py")
    return [(folder, count) for folder, count in files.items() if count > _MOST_FILES]


def _name_module(file: str) -> str:
    return file.removeprefix("cli/").removeprefix("reports/").removesuffix(".py").replace("/", ".")


def _list_imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What a module imports, as modules and as names in them."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _find_circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    reached = {start: _find_reachable(start, graph) for start in graph}
    circles = {
        tuple(sorted(other for other in around if start in reached.get(other, ())))
        for start, around in reached.items()
        if start in around
    }
    return sorted(map(list, circles))


def _find_reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return seen


@cache
def list_nodes() -> dict[str, list[ast.AST]]:
    """The nodes of every module, by its path from the root; parsed once, for all that look through them."""
    return {file: list(ast.walk(ast.parse((_ROOT / file).read_text(encoding="utf-8")))) for file in _list_files()}


def _list_files() -> list[str]:
    paths = (path for package in _PACKAGES for path in sorted((_ROOT / package).rglob("*.py")))
    return [path.relative_to(_ROOT).as_posix() for path in paths]


if __name__ == "__main__":
    for count in (count_device_comparisons, find_folder_cycles, list_crowded_folders):
        found = count()
        print(f"{count.__name__}: {len(found)}", *found, sep="\n  ")
