"""Makes a package callable: `perfkit.plan(...)` as well as `perfkit.plan.target.target`."""

import inspect
import sys
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

from perfkit.core.optional_deps import explain_missing_torch


def make_callable(package: str, function: str) -> None:
    """Let the module object of `package` call `function` (`module:name`), which is imported at the first call.

    A function with the package's name in `perfkit` would not last: importing any module of the package rebinds the name
    to the package. So the package itself is callable. The function is found by name, which keeps importing the package
    fast and free of the function's dependencies.
    """

    class CallablePackage(ModuleType):
        __slots__ = ()

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            with explain_missing_torch(package):
                return resolve_name(function)(*arguments, **options)

        @property
        def __signature__(self) -> inspect.Signature:
            """For `help` and completion."""
            return inspect.signature(resolve_name(function))

    sys.modules[package].__class__ = CallablePackage
