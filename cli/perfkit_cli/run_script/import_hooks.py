"""Hooks that call back when a module has been imported, at once if it has been already."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Told = Callable[[ModuleType], None]


def call_after_import(name: str, tell: Told) -> None:
    """Call `tell(module)` once the module `name` has been executed, before its first importer continues."""
    if name in sys.modules:
        tell(sys.modules[name])
    else:
        sys.meta_path.insert(0, _ImportFinder(name, tell))


class _ImportFinder(MetaPathFinder):
    """Finds one module as the finders behind it do, with a loader that reports it, and then removes itself."""

    def __init__(self, name: str, tell: Told) -> None:
        self._name = name
        self._tell = tell

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _NotifyingLoader(spec.loader, self._handle_import)
                return spec
        return None

    def _handle_import(self, module: ModuleType) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._tell(module)


class _NotifyingLoader(Loader):
    """A loader that gives its place back before the module runs: the module sees none but its own."""

    def __init__(self, loader: Any, executed: Told) -> None:
        self._loader = loader
        self._executed = executed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._executed(module)
