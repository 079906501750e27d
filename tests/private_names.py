"""The private names of torch that the source uses: `python -m tests.private_names` prints them, and where.

A private name may change with any release, so each has one module that uses it; what many modules need is imported by
`perfkit.cost.torch_dispatch` and `perfkit.cost.torch_fakes` for all. One that some supported release lacks has a
fallback there (`hasattr`, `getattr`), which this list does not see.
"""

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterator

from tests.structure import list_nodes

# Names that more than one module uses: one replaces what the other calls, and settings of which each sets its own.
SHARED = frozenset({"torch.Tensor._make_subclass", "torch._functorch.config", "torch._inductor.config"})


def list_private_names() -> dict[str, list[str]]:
    """The private names by the modules that use them: those that are imported, and those reached from `torch`."""
    used: dict[str, set[str]] = defaultdict(set)
    for file, nodes in list_nodes().items():
        inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            for name in _list_names(node, outermost=id(node) not in inner):
                used[name].add(file)
    return {name: sorted(files) for name, files in sorted(used.items())}


def _list_names(node: ast.AST, *, outermost: bool) -> Iterator[str]:
    names: list[str] = []
    if isinstance(node, ast.ImportFrom) and node.module:
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    elif isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.Attribute) and outermost:
        names = [_take_names(node)]
    yield from (name for name in names if name.startswith("torch.") and is_private(name))


def _take_names(node: ast.Attribute) -> str:
    """The dotted name of an attribute of a module; "" of a call's, an item's and other objects'."""
    names, value = [node.attr], node.value
    while isinstance(value, ast.Attribute):
        names.append(value.attr)
        value = value.value
    return ".".join(reversed([*names, value.id])) if isinstance(value, ast.Name) else ""


def is_private(name: str) -> bool:
    """True if a part of a dotted name begins with one underscore."""
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def find_private_name(name: str) -> bool:
    """True if this torch has the name, as a module or as an attribute of one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


if __name__ == "__main__":
    for name, files in list_private_names().items():
        print(name, *files, sep="\n  ")
