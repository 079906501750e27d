"""JSON Schemas of the files and outputs that perfkit writes, from their structs: docs/schemas, `perfkit schema`."""

import json
import re
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec


class SchemaRoot(NamedTuple):
    """A struct by `module:name`, imported on demand, and what its JSON is.

    `version` is that of a struct without a field `schema_version`.
    """

    struct: str
    content: str
    version: int = 1

    def load(self) -> type[msgspec.Struct]:
        """The struct."""
        struct: type[msgspec.Struct] = resolve_name(self.struct)
        return struct


FILES: Mapping[str, SchemaRoot] = MappingProxyType(
    {
        "report": SchemaRoot("perfkit.analysis.model.suite:Analysis", "report.json: suite or attached loop"),
        "analysis": SchemaRoot("perfkit.analysis.model.trace_analysis:TraceAnalysis", "analysis.json: traces"),
        "memory": SchemaRoot("perfkit.analysis.model.memory_analysis:MemoryAnalysis", "memory.json: memory recording"),
        "check": SchemaRoot("perfkit.check.judge.result:Check", "check.json: check of a change"),
        "bisect": SchemaRoot("perfkit.check.bisect.result:Bisection", "bisect.json: search for a change"),
        "comparison": SchemaRoot("perfkit.analysis.model.comparison:Comparison", "comparison.json: compared runs"),
        "plan": SchemaRoot("perfkit.analysis.model.plan:Plan", "plan.json: plan"),
        "advice": SchemaRoot("perfkit.plan.advise.advice:Advice", "advice.json: advice"),
        "process": SchemaRoot("perfkit.analysis.model.stacks:ProcessAnalysis", "process.json: running process"),
        "tune": SchemaRoot("perfkit.tune.model.tune_result:TuneResult", "tune.json: search for the best variant"),
        "summary": SchemaRoot(
            "perfkit.store.summary:ReportSummary", "summary.json: status and key figures of any report"
        ),
        "spec": SchemaRoot("perfkit.core.spec:RunSpec", "spec.json: request of a run"),
        "run": SchemaRoot("perfkit.core.record.run_result:RunResult", "run.json: how a run ended"),
        "record": SchemaRoot("perfkit.core.record.rank_record:RankRecord", "record.json: measurements of one rank"),
    }
)
OUTPUTS: Mapping[str, SchemaRoot] = MappingProxyType(
    {
        "calibration": SchemaRoot("perfkit_cli.calibrate:Calibration", "perfkit calibrate --json"),
        "devices": SchemaRoot("perfkit_cli.devices:DeviceList", "perfkit devices --json"),
        "error": SchemaRoot("perfkit_cli.output.error_output:ErrorOutput", "any command that fails, with --json"),
        "explanation": SchemaRoot("perfkit_cli.pages.explanations:Explanation", "perfkit explain --json"),
        "findings": SchemaRoot("perfkit_cli.findings:FindingList", "perfkit findings --json"),
        "mfu": SchemaRoot("perfkit.mfu.audit_model:MfuAudit", "perfkit mfu --json"),
        "plan_output": SchemaRoot("perfkit_cli.output.plan_output:PlanOutput", "perfkit plan --json"),
        "plan_search": SchemaRoot("perfkit_cli.output.plan_output:PlanSearchOutput", "perfkit plan --search --json"),
        "techniques": SchemaRoot("perfkit_cli.output.listing:TechniqueList", "perfkit techniques --json"),
        "workloads": SchemaRoot("perfkit_cli.output.listing:WorkloadList", "perfkit workloads --json"),
    }
)
ROOTS: Mapping[str, SchemaRoot] = MappingProxyType({**FILES, **OUTPUTS})
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ATTRIBUTES = "Attributes:\n"
_ATTRIBUTE = re.compile(r"^ {4}(\w+(?:, \w+)*): +(.*(?:\n {8}.*)*)", re.MULTILINE)
_CLAUSE_END = re.compile(r"(?<=[.;]) +(?=[A-Z`])(?![^()]*\))")
_SUBJECT = re.compile(r"^`\w+`(?:(?:, | and |, and )`\w+`)*")
_LATER_SUBJECT = re.compile(r"(?:, |; |: | and )(`\w+`)")


def format_schemas() -> dict[str, str]:
    """All schemas, as JSON, by schema file name."""
    return {
        f"{name}.schema.json": json.dumps(build_schema(name), indent=1, ensure_ascii=False) + "\n" for name in ROOTS
    }


def write_schemas(folder: Path) -> None:
    """Write all schemas into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in format_schemas().items():
        (folder / name).write_text(text, encoding="utf-8")


def build_schema(name: str) -> dict[str, Any]:
    """The schema of a name of `ROOTS`; its definitions are described by the docstrings of the structs."""
    root = ROOTS[name]
    schema = msgspec.json.schema(root.load())
    definitions = {title: _describe(definition) for title, definition in schema["$defs"].items()}
    return {"$schema": _DIALECT, "$id": f"urn:perfkit:{name}:{_get_version(root)}", **schema, "$defs": definitions}


def _get_version(root: SchemaRoot) -> int:
    fields = {field.name: field.default for field in msgspec.structs.fields(root.load())}
    version = fields.get("schema_version", root.version)
    assert isinstance(version, int)
    return version


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
