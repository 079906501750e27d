"""The page of all JSON files that perfkit writes, from the structs that they are written from: docs/json.md."""

import re
import types
from collections.abc import Iterator
from enum import Enum
from inspect import cleandoc
from typing import Any, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from perfkit.analysis.model.comparison import Comparison
from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.model.plan import Plan
from perfkit.analysis.model.process import ProcessAnalysis
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.check.result import Check
from perfkit.record import RankRecord, RunResult
from perfkit.spec import RunSpec
from perfkit.store.summary import ReportSummary

ROOTS: dict[str, type[Struct]] = {
    "report.json": Analysis,
    "analysis.json": TraceAnalysis,
    "memory.json": MemoryAnalysis,
    "check.json": Check,
    "comparison.json": Comparison,
    "plan.json": Plan,
    "process.json": ProcessAnalysis,
    "summary.json": ReportSummary,
    "spec.json": RunSpec,
    "run.json": RunResult,
    "record.json": RankRecord,
}
_INTRO = """\
# JSON reference

<!-- Written by `make docs-reference`. -->

Conventions are in [File formats](formats.md). A struct is described once, below the first file that contains it.

| file | struct |
|---|---|"""


def format_json_page() -> str:
    """Each file's structs with their fields and types, as Markdown."""
    known: dict[type[Struct], None] = {}
    sections: list[str] = []
    for file, root in ROOTS.items():
        sections += [f"## {file}", ""]
        for struct in _walk(root, known):
            sections += _format_struct(struct)
    rows = [f"| `{file}` | {_link(root)} |" for file, root in ROOTS.items()]
    return "\n".join([_INTRO, *rows, "", *sections])


def _walk(struct: type[Struct], known: dict[type[Struct], None]) -> Iterator[type[Struct]]:
    """A struct and the structs of its fields, each once over all files."""
    if struct in known:
        return
    known[struct] = None
    yield struct
    for annotation in get_type_hints(struct).values():
        for part in _list_structs(annotation):
            yield from _walk(part, known)


def _list_structs(annotation: Any) -> Iterator[type[Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        yield annotation
    for part in get_args(annotation):
        yield from _list_structs(part)


def _format_struct(struct: type[Struct]) -> Iterator[str]:
    yield from (f"### {struct.__name__}", "", _escape(cleandoc(struct.__doc__ or "")), "")
    hints = get_type_hints(struct)
    tag = struct.__struct_config__.tag
    yield from ("| field | type |", "|---|---|")
    if tag is not None:
        yield f'| `type` | `"{tag}"` |'
    yield from (f"| `{name}` | {_format_type(hints[name])} |" for name in struct.__struct_fields__)
    yield ""


def _format_type(annotation: Any) -> str:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join(map(_format_type, parts))
    if origin in (tuple, list, set, frozenset):
        kinds = [_format_type(part) for part in parts if part is not Ellipsis]
        return f"array of {' or '.join(kinds)}" if len(kinds) == 1 else f"array [{', '.join(kinds)}]"
    if isinstance(origin, type) and parts:
        return f"object: {_format_type(parts[0])} to {_format_type(parts[-1])}"
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return _link(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f'`"{member.value}"`' for member in annotation)
    return _NAMES.get(annotation, str(getattr(annotation, "__name__", annotation)))


_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _link(struct: type[Struct]) -> str:
    return f"[{struct.__name__}](#{struct.__name__.lower()})"


def _escape(text: str) -> str:
    return re.sub(r"(?<!`)<", "&lt;", text)
