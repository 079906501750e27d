"""JSON Schemas of the files that perfkit writes, from the structs that they are written from: docs/schemas."""

import json
import re
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from perfkit.analysis.model.comparison import Comparison
from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.model.plan import Plan
from perfkit.analysis.model.stacks import ProcessAnalysis
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.check.judge.result import Check
from perfkit.core.record import RankRecord, RunResult
from perfkit.core.spec import RunSpec
from perfkit.store.summary import ReportSummary
from perfkit.tune.model.tune_result import TuneResult

ROOTS: Mapping[str, type[Struct]] = MappingProxyType(
    {
        "report.json": Analysis,
        "analysis.json": TraceAnalysis,
        "memory.json": MemoryAnalysis,
        "check.json": Check,
        "comparison.json": Comparison,
        "plan.json": Plan,
        "process.json": ProcessAnalysis,
        "tune.json": TuneResult,
        "summary.json": ReportSummary,
        "spec.json": RunSpec,
        "run.json": RunResult,
        "record.json": RankRecord,
    }
)
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ATTRIBUTES = "Attributes:\n"
_ATTRIBUTE = re.compile(r"^ {4}(\w+(?:, \w+)*): +(.*(?:\n {8}.*)*)", re.MULTILINE)
_CLAUSE_END = re.compile(r"(?<=[.;]) +(?=[A-Z`])(?![^()]*\))")
_SUBJECT = re.compile(r"^`\w+`(?:(?:, | and |, and )`\w+`)*")
_LATER_SUBJECT = re.compile(r"(?:, |; |: | and )(`\w+`)")


def format_schemas() -> dict[str, str]:
    """The schema of each file, as JSON, by schema file name."""
    return {
        f"{Path(file).stem}.schema.json": json.dumps(build_schema(root), indent=1, ensure_ascii=False) + "\n"
        for file, root in ROOTS.items()
    }


def write_schemas(folder: Path) -> None:
    """Write all schemas into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in format_schemas().items():
        (folder / name).write_text(text, encoding="utf-8")


def build_schema(root: type[Struct]) -> dict[str, Any]:
    """A file's schema; its definitions are described by the docstrings of the structs."""
    schema = msgspec.json.schema(root)
    definitions = {name: _describe(definition) for name, definition in schema["$defs"].items()}
    return {"$schema": _DIALECT, **schema, "$defs": definitions}


def _describe(definition: dict[str, Any]) -> dict[str, Any]:
    """The definition with a clean description, and one for each field that it explains."""
    prose, _, attributes = _name_values(cleandoc(definition.get("description", ""))).partition(_ATTRIBUTES)
    fields = definition.get("properties", {})
    for name, meaning in (*_read_attributes(attributes), *_read_clauses(prose)):
        if name in fields:
            fields[name].setdefault("description", meaning)
    return {**definition, "description": prose.strip()} if prose else definition


def _name_values(text: str) -> str:
    """Values as JSON has them."""
    return re.sub(r"\bNone\b", "null", re.sub(r"\b(True|False)\b", lambda match: match[0].lower(), text))


def _read_attributes(text: str) -> Iterator[tuple[str, str]]:
    """Fields and meanings of a docstring's `Attributes:`."""
    for names, meaning in _ATTRIBUTE.findall(text):
        for name in names.split(", "):
            yield name, " ".join(meaning.split())
    for _, meaning in _ATTRIBUTE.findall(text):
        yield from _read_clauses(meaning)


def _read_clauses(text: str) -> Iterator[tuple[str, str]]:
    """Fields and clauses that explain them: those that a clause begins with, then those that are subjects within it."""
    clauses = [f"{clause.rstrip('.;')}." for clause in _CLAUSE_END.split(" ".join(text.split()))]
    for pattern in (_SUBJECT, _LATER_SUBJECT):
        for clause in clauses:
            for subject in pattern.finditer(clause):
                yield from ((name, clause) for name in re.findall(r"`(\w+)`", subject[0]))
