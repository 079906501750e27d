"""Commands that write a patch, and that take it back."""

import shlex
from pathlib import Path

from msgspec.structs import replace

from perfkit.tune.model.tune_result import ProgramPatch


def add_file_commands(patch: ProgramPatch, diff: Path) -> ProgramPatch:
    """The patch of one file with its commands; `diff` is where it is stored."""
    return _add_commands(patch, (str(Path(patch.path).resolve()), str(diff.resolve())))


def add_tree_commands(patch: ProgramPatch, root: Path, diff: Path) -> ProgramPatch:
    """The same for a patch whose files are named from the folder `root`."""
    return _add_commands(patch, ("-p1", "-d", str(root.resolve()), "-i", str(diff.resolve())))


def _add_commands(patch: ProgramPatch, words: tuple[str, ...]) -> ProgramPatch:
    return replace(patch, apply=shlex.join(("patch", *words)), undo=shlex.join(("patch", "-R", *words)))
