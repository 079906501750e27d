"""Copies of a script's folder with edits: links to its files, and the edited ones anew."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import libcst as cst

from perfkit.tune.patch.overlay import make_overlay
from perfkit.tune.patch.script_edits import EDITS_BY_NAME, EditPlace
from perfkit.tune.script.script_rounds import ScriptVariant


class ScriptSources(NamedTuple):
    """The texts of the files that the script runs, by their path in `root`; `script` is the script's."""

    root: Path
    script: Path
    texts: Mapping[Path, str]


def read_sources(root: Path, script: Path, files: Sequence[str]) -> ScriptSources:
    """Read the script and those of its files that are Python of the user's; what cannot be parsed is left out."""
    texts: dict[Path, str] = {}
    for file in dict.fromkeys([script, *map(Path, files)]):
        text = (root / file).read_text(encoding="utf-8")
        try:
            cst.parse_module(text)
        except cst.ParserSyntaxError:
            continue
        texts[file] = text
    return ScriptSources(root, script, texts)


def write_edits(sources: ScriptSources, edits: Sequence[str], place: EditPlace) -> dict[Path, str]:
    """The new texts of the files that these edits change. Nothing of them is executed."""
    texts = dict(sources.texts)
    for name in edits:
        texts = {file: EDITS_BY_NAME[name].write(text, place) for file, text in texts.items()}
    changed = {file: text for file, text in texts.items() if text != sources.texts[file]}
    for file, text in changed.items():
        compile(text, str(file), "exec", dont_inherit=True)
    return changed


def recognizes(sources: ScriptSources, base: Sequence[str], name: str, place: EditPlace) -> bool:
    """True if the edit finds something to write on top of the others."""
    return write_edits(sources, (*base, name), place) != write_edits(sources, base, place)


def make_copy(sources: ScriptSources, name: str, changed: Mapping[Path, str], folder: Path) -> ScriptVariant:
    """Make a copy of the script's folder with these texts, unless it is there."""
    if not folder.is_dir():
        make_overlay(sources.root, {sources.script: sources.texts[sources.script]} | dict(changed), folder)
    return ScriptVariant(name, folder)


def format_diff(sources: ScriptSources, changed: Mapping[Path, str]) -> str:
    """The unified diff of all changed files."""
    parts = []
    for file, text in sorted(changed.items()):
        before = sources.texts[file].splitlines(keepends=True)
        lines = difflib.unified_diff(before, text.splitlines(keepends=True), f"a/{file}", f"b/{file}")
        parts += [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    return "".join(parts)
