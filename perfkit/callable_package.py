"""Makes a package callable, as `perfkit.plan(...)` beside `perfkit.plan.target`."""

import inspect
import sys
from pkgutil import resolve_name
from types import ModuleType
from typing import Any


def make_callable(package: str, function: str) -> None:
    """Let the module object of `package` call `function` (`module:name`), which is imported at the first call.

    A function of the package's name in `perfkit` would not last: importing any module of the package binds the name
    in `perfkit` to the package again. So the package is what is called. The function is found by name: importing the
    package alone stays fast, and nothing below it depends on what the function needs.
    """

    class CallablePackage(ModuleType):
        __slots__ = ()

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return resolve_name(function)(*arguments, **options)

        @property
        def __signature__(self) -> inspect.Signature:
            """For `help` and completion."""
            return inspect.signature(resolve_name(function))

    sys.modules[package].__class__ = CallablePackage
