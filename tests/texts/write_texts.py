"""Writes every text that people see to the files beside this one: `make texts`. A change of words is a change of these.

Texts come from the samples of the tests, without a clock, a machine or a training: the same tree writes the same files.
"""

import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from perfkit.analysis.model.finding import Finding
from perfkit_reports.document.blocks import Findings
from perfkit_reports.document.document import Document
from perfkit_reports.render import terminal
from tests.texts.makers.document_text import render_samples
from tests.texts.makers.error_text import build_errors
from tests.texts.makers.finding_examples import build_findings
from tests.texts.makers.help_text import build_help
from tests.texts.makers.sentences import list_code_sentences, list_page_sentences
from tests.texts.makers.subjects import build_samples

FOLDER = Path(__file__).parent
_SUFFIXES = (".md", ".txt")
WIDTH = 100
_UNPRINTED = ("hostile", "many", "many_ranks")  # samples that say nothing of their own on a terminal
_VERBOSE = ("memory", "flight", "process")  # the others' sections stand in their documents, and are long


def build_texts() -> dict[str, str]:
    """The content of each file by its name."""
    texts: dict[str, str] = {}
    with _isolate():
        samples = build_samples()
        for subject, documents in samples.items():
            texts[f"{subject}.md"] = render_samples(subject, documents)
            texts[f"{subject}.terminal.txt"] = _print_all(subject, documents)
        every = [document for documents in samples.values() for document in documents.values()]
        found = [
            found for each in every for block in each.blocks if isinstance(block, Findings) for found in block.items
        ]
        texts["findings.md"] = build_findings(found)
    with _isolate():
        texts["errors.txt"] = build_errors(WIDTH)
        texts |= build_help(WIDTH)
    texts["pages.md"] = "\n".join(["# pages", *list_page_sentences()]) + "\n"
    for package, lines in list_code_sentences(" ".join(texts.values())).items():
        texts[f"code/{package}.md"] = "\n".join([f"# {package}", *lines]) + "\n"
    return texts


def _list_findings(samples: dict[str, dict[str, Document]]) -> Iterator[Finding]:
    for documents in samples.values():
        for document in documents.values():
            for block in document.blocks:
                if isinstance(block, Findings):
                    yield from block.items


def list_files() -> dict[str, str]:
    """What the files hold now."""
    files = (path for path in sorted(FOLDER.rglob("*")) if path.suffix in _SUFFIXES)
    return {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in files}


def write_texts() -> list[str]:
    """Write the files anew and remove those that are no longer made; the names of all that changed."""
    texts, files = build_texts(), list_files()
    for name in files.keys() - texts.keys():
        (FOLDER / name).unlink()
    for name, text in texts.items():
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")
    return sorted(name for name in texts.keys() | files.keys() if texts.get(name) != files.get(name))


@contextmanager
def _isolate() -> Iterator[None]:
    """An empty folder to be in, and nothing of a user's environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERFKIT_")}
    fixed = {"COLUMNS": str(WIDTH), "NO_COLOR": "1", "TZ": "UTC"}
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(_make_folder(Path(folder))),
        patch.dict(os.environ, {**kept, **fixed, "PERFKIT_CACHE": f"{folder}/cache"}, clear=True),
        patch.object(sys, "argv", ["perfkit"]),
    ):
        yield


def _make_folder(parent: Path) -> Path:
    """One whose own name is always the same: reports are named by it."""
    folder = parent / "job"
    folder.mkdir()
    return folder


def _print_all(subject: str, documents: dict[str, Document]) -> str:
    """What a terminal shows of each sample, and of the first also with `--verbose`."""
    parts = [_print_document(name, document) for name, document in documents.items() if name not in _UNPRINTED]
    if subject in _VERBOSE:
        name, document = next(iter(documents.items()))
        parts.append(_print_document(f"{name}, --verbose", document, verbose=True))
    return "\n".join(parts)


def _print_document(name: str, document: Document, *, verbose: bool = False) -> str:
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False)
    terminal.render(document, console, report=Path("report.html"), verbose=verbose)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    return "\n".join([f"{f' {name} ':=^{WIDTH}}", *lines]) + "\n"


if __name__ == "__main__":
    for name in write_texts():
        print(f"changed: tests/texts/{name}")
