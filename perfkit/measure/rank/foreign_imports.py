"""Checks where modules were imported from, when two trees of the same code are measured together."""

import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache

from perfkit.core.errors import PerfkitError

# Set for the processes of a side: the folders that hold the code of this side and of the other.
OWN_TREE = "PERFKIT_OWN_TREE"
OTHER_TREE = "PERFKIT_OTHER_TREE"


def check_imports() -> None:
    """Raise a `PerfkitError` if a loaded module comes from the other side's tree; do nothing without another side."""
    own, other = os.environ.get(OWN_TREE, ""), os.environ.get(OTHER_TREE, "")
    if not own or not other or own == other:
        return
    files = {name: getattr(module, "__file__", None) for name, module in tuple(sys.modules.items())}
    foreign = find_foreign_modules(files, own, other, (sys.prefix, sys.base_prefix))
    if foreign:
        name, file = next(iter(foreign.items()))
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        raise PerfkitError(
            f"module {name!r}{more} was imported from the other side, {file}, so both sides would run the same "
            "code; usually the package is installed in editable mode. Set python_path in [tool.perfkit.check] to this "
            f'side\'s folder, relative to {own}, such as ["src"] or ["."], and use no absolute PYTHONPATH'
        )


def find_foreign_modules(
    files: Mapping[str, str | None], own: str, other: str, installed: Iterable[str] = ()
) -> dict[str, str]:
    """The modules whose file is in the tree `other`, by name. `files` has the file of each, None without one.

    A virtual environment is often inside a tree: files below one of the folders `installed`, or in any `site-packages`,
    belong to neither.
    """
    own, other = os.path.realpath(own), os.path.realpath(other)
    libraries = [os.path.realpath(folder) for folder in installed]
    within = _is_within(own, other)  # one tree may hold the other
    foreign = {}
    for name, file in files.items():
        if not file:
            continue
        path = os.path.join(_resolve_folder(os.path.dirname(file)), os.path.basename(file))  # noqa: PTH118, PTH119, PTH120
        if not _is_within(path, other) or (within and _is_within(path, own)):
            continue
        packaged = "/site-packages/" in path or "/dist-packages/" in path
        if not packaged and not any(_is_within(path, folder) and _is_within(folder, other) for folder in libraries):
            foreign[name] = file
    return foreign


@cache  # thousands of modules are in some hundred folders
def _resolve_folder(folder: str) -> str:
    return os.path.realpath(folder)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
