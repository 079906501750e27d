"""Sentences as the code has them, with what is put into them in braces: also those that no sample leads to.

Of Python by its syntax tree, of scripts and templates of pages by their strings and texts. Docstrings and comments are
not told to anybody who runs perfkit.
"""

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from perfkit.core.sanitize import escape_control_chars

ROOT = Path(__file__).parents[3]
_PACKAGES = {"perfkit": "perfkit", "perfkit_cli": "cli/perfkit_cli", "perfkit_reports": "reports/perfkit_reports"}
_TEMPLATES = ROOT / "reports/perfkit_reports/templates"
_WORDS = re.compile(r"\S[,:;]? +\S+ +\S|^[A-Z][a-z]+ \w")  # three words, or two that begin as a label does
_STRING = re.compile(r"""(["'`])((?:\\.|(?!\1)[^\\\n])*)\1""")
_COMMENT = re.compile(r"^\s*//.*$|(?<=[;{},)])\s+// .*$", re.MULTILINE)
_WORDLESS = (ast.Name, ast.Load, ast.Assert, ast.Import, ast.ImportFrom, ast.alias, ast.arg)
_PIECE = 10  # characters of a sentence that are worth looking for elsewhere
_ATTRIBUTES = ("title", "aria-label", "placeholder", "alt", "content", "data-label")
# `font: 12px sans` and the like, and pieces of markup.
_NO_SENTENCE = re.compile(r"^[.#\[]|^<|^https?:|^[\w-]+: [\w-]+;|^use strict$|^default-src|[{}]\s*$^")


def list_code_sentences(others: str) -> dict[str, list[str]]:
    """Sentences by package and module: `perfkit.plan`, `perfkit_cli`.

    Those that `others` or the pages made of code tell are left out: all of a sentence but what is put into it.
    """
    told = " ".join(
        " ".join([others, *(path.read_text(encoding="utf-8") for path in _list_made_pages())]).split()
    ).lower()
    return {
        name: lines
        for name, files in sorted(_group_files().items())
        if (lines := [line for file in sorted(files) for line in _describe_module(file, told)])
    }


def list_page_sentences() -> list[str]:
    """Those of the templates and scripts of pages."""
    lines = []
    for path in sorted(_TEMPLATES.rglob("*")):
        read = {".j2": read_template_texts, ".js": read_script_strings}.get(path.suffix)
        if read is None or "vendor" in path.parts:
            continue
        found = [*dict.fromkeys(read(path.read_text(encoding="utf-8")))]
        lines += ["", f"## {path.relative_to(_TEMPLATES)}", "", *found] if found else []
    return lines


def read_script_strings(source: str) -> Iterator[str]:
    """Strings of JavaScript that read as words."""
    for found in _STRING.finditer(_COMMENT.sub("", source)):
        text = re.sub(r"\$\{([^}]*)\}", r"{\1}", found[2]).strip()
        if _WORDS.search(text) and not _NO_SENTENCE.search(text):
            yield f"- {text}"


def read_template_texts(source: str) -> list[str]:
    """Texts and tooltips of a Jinja template; what it fills in stands in braces."""
    source = re.sub(r"\{#.*?#\}|\{%.*?%\}", "", source, flags=re.DOTALL)
    source = re.sub(r"\{\{-?\s*(.*?)\s*-?\}\}", lambda found: "{" + re.sub(r"[<>\"]", "", found[1]) + "}", source)
    reader = _TemplateReader()
    reader.feed(source)
    return reader.texts


class _TemplateReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped += tag in ("style", "script")
        self.texts += [f"- {name}: {value}" for name, value in attrs if name in _ATTRIBUTES and _has_letters(value)]

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in ("style", "script")

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if not self._skipped and _has_letters(text):
            self.texts.append(f"- {text}")


def _has_letters(text: str | None) -> bool:
    return re.search(r"[A-Za-z]{2,}", re.sub(r"\{[^}]*\}", "", text or "")) is not None


def _is_told(line: str, told: str) -> bool:
    text = " ".join(re.sub(r"^- (?:\w+(?:Error|Message): )?", "", line).lower().split())
    pieces = [piece.strip() for piece in re.split(r"\{[^{}]*\}", text)]
    return max(map(len, pieces)) >= _PIECE and all(piece in told for piece in pieces if len(piece) >= _PIECE)


def _list_made_pages() -> list[Path]:
    """The docs' pages that are written by code, which tests of their own compare."""
    docs = ROOT / "docs"
    pages = ("techniques.md", "findings.md", "hardware.md")
    return [*sorted((docs / "techniques").glob("*.md")), *(docs / name for name in pages)]


def _group_files() -> dict[str, list[Path]]:
    """Modules by package of the first level."""
    groups: dict[str, list[Path]] = {}
    for name, folder in _PACKAGES.items():
        for path in (ROOT / folder).rglob("*.py"):
            first, *rest = path.relative_to(ROOT / folder).parts
            groups.setdefault(f"{name}.{first}" if rest else name, []).append(path)
    return groups


def _describe_module(path: Path, told: str) -> list[str]:
    found = dict.fromkeys(read_python_sentences(path.read_text(encoding="utf-8")))
    lines = [line for line in found if not _is_told(line, told)]
    return ["", f"## {path.relative_to(ROOT)}", "", *lines] if lines else []


def read_python_sentences(source: str) -> Iterator[str]:
    """Sentences of a module in the order in which it has them; of an error its class first."""
    return _walk_sentences(ast.parse(source), "")


def _walk_sentences(node: ast.AST, raised: str) -> Iterator[str]:
    """`raised` is the class of the error that a string is the message of; docstrings and assertions are left out."""
    kind = type(node)
    if kind in _WORDLESS or (kind is ast.Expr and type(node.value) is ast.Constant):  # type: ignore[attr-defined]
        return
    if kind is ast.JoinedStr or (kind is ast.Constant and isinstance(node.value, str)):  # type: ignore[attr-defined]
        yield from _describe_string(node, raised)
        return
    message = node.args[-1] if isinstance(node, ast.Call) and node.args and _is_error(node) else None
    for name in node._fields:
        value = getattr(node, name)
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.AST):
                own = _get_name(node.func) if child is message else ""  # type: ignore[attr-defined]
                yield from _walk_sentences(child, own or (raised if kind in (ast.IfExp, ast.BinOp) else ""))


def _describe_string(node: ast.AST, raised: str) -> Iterator[str]:
    text = format_template(node)
    if raised or (_WORDS.search(text) and not _NO_SENTENCE.search(text)):
        shown = "\n  ".join(line.rstrip() for line in text.strip().splitlines() if line.strip())
        yield escape_control_chars(f"- {f'{raised}: ' if raised else ''}{shown}")


def format_template(node: ast.AST) -> str:
    """A string with the expressions that are put into it in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(format_template, node.values))
    return "{" + ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node) + "}"


def _is_error(call: ast.Call) -> bool:
    name = _get_name(call.func)
    return name.endswith(("Error", "Message", "UnavailableError")) or name in ("BadParameter", "Unknown")


def _get_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
