"""The program to run (a script, a folder or archive with a `__main__.py`, or a module), run as Python would."""

import builtins
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from perfkit.core.errors import UsageError

# Makes code of a script's source and path.
Compile = Callable[[bytes | str, str], CodeType]


class UserProgram:
    """The program of `python PATH` or `python -m NAME`: loaded first, then run in its own module `__main__`.

    Attributes:
        name: the default name of its run.
        main: the module, once it runs.
    """

    def __init__(self, name: str, argv0: str, first: list[str], spec: Callable[[], ModuleSpec | None]) -> None:
        self.name = name
        self.main: ModuleType | None = None
        self._argv0 = argv0
        self._first = first
        self._spec = spec

    def load(self, arguments: tuple[str, ...], code_of: Compile) -> tuple[CodeType, Mapping[str, Any]]:
        """Load the code and the module's attributes, set `sys.argv` and `sys.path`, and run enclosing packages.

        Raises:
            UsageError: no such module.
        """
        sys.path[:0] = self._first
        sys.argv = [self._argv0, *arguments]
        spec = self._spec()
        file = _make_absolute(self._argv0) if spec is None else spec.origin or ""
        if self._argv0 == "-m":
            sys.argv[0] = file
        loader: Any = SourceFileLoader("__main__", file) if spec is None else spec.loader
        # A script's own cache is neither read nor written, as under Python.
        source = loader.get_data(file) if spec is None else loader.get_source(spec.name)
        code = code_of(source, file) if source is not None else loader.get_code(spec.name if spec else "__main__")
        return code, {
            "__builtins__": builtins,
            "__cached__": spec.cached if spec else None,
            "__file__": file,
            "__loader__": loader,
            "__package__": spec.parent if spec else None,
            "__spec__": spec,
        }

    def execute(self, code: CodeType, known: Mapping[str, Any]) -> None:
        """Run it to its end. Whatever it raises is raised."""
        self.main = ModuleType("__main__")
        if hasattr(sys.modules["__main__"], "__annotations__"):
            self.main.__annotations__ = {}
        self.main.__dict__.update(known)
        sys.modules["__main__"] = self.main
        exec(code, self.main.__dict__)


def make_script_program(path: str) -> UserProgram:
    """Make the program of `python PATH`.

    Raises:
        UsageError: no such file, or it cannot be read.
    """
    place = Path(path)
    try:
        if not place.is_dir():
            with place.open("rb") as file:
                archive = file.read(4) == b"PK\x03\x04"
    except OSError as error:
        raise UsageError(
            f"cannot run {path}: {error.strerror}; give the path of a script, or -m and a module's name"
        ) from None
    if place.is_dir() or archive:
        spec = PathFinder.find_spec("__main__", [_make_absolute(path)])
        if spec is None:
            raise UsageError(f"cannot run {path}: it contains no __main__.py")
        return UserProgram(place.resolve().stem, path, [_make_absolute(path)], lambda: spec)
    return UserProgram(place.stem, path, [] if sys.flags.safe_path else [str(place.resolve().parent)], lambda: None)


def make_module_program(name: str, first: list[str]) -> UserProgram:
    """Make the program of `python -m NAME`; `first` is Python's first entry of the search path for it.

    A missing module is detected when the program is loaded.

    Raises:
        UsageError: the name is the path of a script.
    """
    if name.endswith(".py") and Path(name).is_file():
        raise UsageError(f"{name} is a script, not a module; omit -m", id="usage.conflict")
    return UserProgram(name.removesuffix(".__main__"), "-m", first, lambda: _find_module_spec(name))


def _find_module_spec(name: str) -> ModuleSpec:
    """Find a module's spec; for a package, that of its `__main__`.

    Raises:
        UsageError: no such module, or it cannot be run.
    """
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        # A package around it is missing, which is the caller's mistake; one that they import is not.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None:
        raise UsageError(f"no module named {name!r}")
    if spec.submodule_search_locations is not None:
        return _find_module_spec(f"{name}.__main__")
    return spec


def _make_absolute(path: str) -> str:
    """As Python has it in `__file__`: joined, and nothing resolved."""
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118 - pathlib would leave out what is redundant
