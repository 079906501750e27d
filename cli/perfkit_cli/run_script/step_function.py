"""`--step-function`: makes each call of a function of the user a step of the loop."""

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from perfkit.core.errors import make_unknown_name_error

# The name under which the decorator is found in the globals of the script.
DECORATOR = "__perfkit_step__"


class StepFunction:
    """Reports the end of each outermost call of a function.

    Calls traced by torch.compile report nothing: the function must not be compiled after its definition.

    Attributes:
        calls: number of reported steps.
        found: True if the function exists.
        on_step: called after each call, once set.
    """

    def __init__(self, name: str) -> None:
        module, _, function = name.rpartition(":")
        self.module = module
        self.function = function
        self.calls = 0
        self.found = False
        self.on_step: Callable[[], None] | None = None
        self._inside = False
        self._choices: list[str] | None = None  # the script's definitions, once it is read

    def wrap(self, function: Any) -> Any:
        """`function` (also a staticmethod or classmethod), telling."""
        if isinstance(function, staticmethod | classmethod):
            return type(function)(self.wrap(function.__func__))
        self.found = True

        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            if self._inside or _is_compiling():
                return function(*args, **kwargs)
            self._inside = True
            try:
                result = function(*args, **kwargs)
            finally:
                self._inside = False
            self._report_call()
            return result

        return marked

    def wrap_in_module(self, module: ModuleType) -> None:
        """Replace the function in a module that has been imported."""
        *outer, name = self.function.split(".")
        owner: Any = module
        for part in outer:
            owner = getattr(owner, part, None)
        function = vars(owner).get(name) if isinstance(owner, ModuleType | type) else None
        if callable(function) or isinstance(function, classmethod):
            setattr(owner, name, self.wrap(function))

    def decorate_script(self, source: bytes | str, path: str) -> ast.Module:
        """The script with the function's definitions decorated by `DECORATOR`; every line stays where it was."""
        tree = ast.parse(source, path)
        functions = list(_walk_functions(tree.body))
        names = dict.fromkeys(name for name, _ in functions)
        self._choices = [name for name in names if _is_offered(name.rpartition(".")[2])]
        for name, node in functions:
            if name == self.function:
                place = node.decorator_list[0] if node.decorator_list else node
                decorator = ast.Name(DECORATOR, ast.Load())
                node.decorator_list.insert(0, ast.copy_location(decorator, place))
        return tree

    def describe_problem(self, main: ModuleType | None) -> str:
        """Describe a problem with the function for the user; "" if there is none. `main` is the script."""
        if self.calls:
            return ""
        if self.found:
            return (
                f"no step was recorded: --step-function {self.function} was never called; name a function that runs "
                "once per step and is not compiled as a whole"
            )
        module = sys.modules.get(self.module) if self.module else main
        if module is None:
            return f"--step-function: the module {self.module} was never imported"
        where = self.module or "the script"
        choices = _list_defined_functions(module) if self.module or self._choices is None else self._choices
        if not choices:
            return f"--step-function: no function {self.function!r} in {where}, which contains no functions"
        return f"--step-function: {make_unknown_name_error(f'function of {where}', self.function, choices)}"

    def _report_call(self) -> None:
        if self.on_step is not None:
            self.calls += 1
            self.on_step()


def _is_compiling() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def _walk_functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods that a script defines, also under `if`, `try` and `with`."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _walk_functions(node.body, f"{prefix}{node.name}.")
        else:
            for field in ("body", "orelse", "finalbody"):
                yield from _walk_functions(getattr(node, field, []), prefix)
            for handler in getattr(node, "handlers", []):
                yield from _walk_functions(handler.body, prefix)


def _list_defined_functions(module: ModuleType) -> list[str]:
    """The functions and methods that a module defines itself, without those that were made for it (a dataclass's)."""
    names = []
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            names.append(name)
        elif inspect.isclass(value):
            members = {method: getattr(member, "__func__", member) for method, member in vars(value).items()}
            functions = [method for method, member in members.items() if inspect.isfunction(member)]
            names += [f"{name}.{method}" for method in functions if _is_offered(method)]
    return names


def _is_offered(name: str) -> bool:
    """False for Python's own methods (`__getitem__`), which are no steps, except `__call__`."""
    return name == "__call__" or not name.startswith("__")
