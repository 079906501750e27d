"""Writes techniques into a program's source, as a unified diff with instructions for what cannot be written safely."""

import difflib
from collections.abc import Sequence
from typing import NamedTuple

from perfkit.core.spec import TechniqueSpec
from perfkit.tune.model.tune_result import PatchInstruction
from perfkit.tune.patch.patch_table import PATCH_RULES, get_instruction


class SourcePatch(NamedTuple):
    """A program's patch: `diff` is unified, "" where nothing could be written; `written` are the techniques in it.

    `path` is the program's file, `source` its patched text.
    """

    path: str
    diff: str
    source: str
    written: tuple[str, ...]
    by_hand: tuple[PatchInstruction, ...]


def write_patch(path: str, source: str, techniques: Sequence[TechniqueSpec], device: str) -> SourcePatch:
    """Write techniques into a source one after the other. Raises `SyntaxError` for a source that is not Python.

    Nothing of the source is executed. A technique whose place is not recognized is an instruction.
    """
    compile(source, path, "exec", dont_inherit=True)
    written, by_hand, text = [], [], source
    for spec in techniques:
        rule = PATCH_RULES.get(spec.name)
        edited = text if rule is None or rule.edit is None else rule.edit(text, spec.params, device)
        if edited == text:
            by_hand.append(PatchInstruction(technique=spec.label, text=get_instruction(spec.name)))
        else:
            compile(edited, path, "exec", dont_inherit=True)
            written.append(spec.label)
            text = edited
    return SourcePatch(
        path=path, diff=_format_diff(path, source, text), source=text, written=tuple(written), by_hand=tuple(by_hand)
    )


def _format_diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
