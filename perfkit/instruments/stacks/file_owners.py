"""Whose code a file is: perfkit's, a library's, or the program's own."""

import os
import sys
import sysconfig
from functools import cache
from pathlib import Path

from perfkit.store.stacks import LIBRARY, OURS, PROGRAM

_INSTALLED = ("site-packages", "dist-packages")
# Files written by torch.compile and torch.fx: they stand for unknown lines of the program.
_GENERATED = ("<eval_with_key>", "<frozen ", "torchinductor_", "<torch_package", "<class ")


@cache
def find_owner(file: str) -> str:
    """`OURS`, `LIBRARY` (Python's own, installed and generated code) or `PROGRAM`."""
    if file.startswith(_list_own_folders()):
        return OURS
    if any(mark in file for mark in _GENERATED) or file.startswith(_list_standard_folders()):
        return LIBRARY
    return LIBRARY if any(part in _INSTALLED for part in Path(file).parts) else PROGRAM


@cache
def _list_own_folders() -> tuple[str, ...]:
    loaded = (sys.modules.get(name) for name in ("perfkit", "perfkit_cli"))
    return tuple(f"{Path(module.__file__).parent}{os.sep}" for module in loaded if module and module.__file__)


@cache
def _list_standard_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(f"{paths[name]}{os.sep}" for name in ("stdlib", "platstdlib"))
