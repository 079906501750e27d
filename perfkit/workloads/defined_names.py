"""Finds the names that a Python file defines, read from its text: nothing is executed."""

import ast
from collections.abc import Iterator
from pathlib import Path

# With these a module may bind names that its text does not show.
_BINDERS = frozenset({"globals", "locals", "exec", "setattr"})


def find_defined_names(path: Path) -> tuple[frozenset[str], tuple[str, ...]] | None:
    """All names that the module's own code binds, and its functions in order.

    None if the text does not show them: it does not parse (executing it says why), imports `*`, or binds by other
    means.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return None
    names: set[str] = set()
    functions: list[str] = []
    for node in _walk_own_nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                functions.append(name)
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name.partition(".")[0] for alias in aliases)
    names.update(functions)
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=used) if used in _BINDERS:
                return None
            case ast.Call(func=ast.Name(id="vars"), args=[]) | ast.Attribute(attr="__dict__"):
                return None
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                return None
            case ast.Global(names=bound):
                names.update(bound)
    return None if names & {"*", "__getattr__"} else (frozenset(names), tuple(functions))


def _walk_own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module's own code, not those within its functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _walk_own_nodes(child)
