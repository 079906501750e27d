"""docs/schemas, made of the structs that JSON files are written from, and docs/json.md, which links and uses them."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, get_type_hints

import jsonschema
import msgspec
import pytest

from perfkit.analysis.model.plan import Plan, PlanSearch
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.model.trace_analysis import TRACE_ANALYSIS_VERSION
from perfkit.analysis.pipeline.comparison import compare_runs
from perfkit.analysis.pipeline.process_stacks import analyze_process
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.core.record.quantity import Unknown
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.mfu.audit import audit_mfu
from perfkit.store.price import Price
from perfkit.store.summary import ReportSummary, RowFigures, VariantOutcome
from perfkit_cli.calibrate import Calibration, DiskRates
from perfkit_cli.output.error_output import ErrorContent, ErrorOutput
from perfkit_cli.output.plan_output import convert_plan, convert_search
from perfkit_cli.pages.explanations import explain_id, list_ids
from perfkit_cli.pages.json_schemas import FILES, ROOTS, build_schema, format_schemas
from tests.fixtures import (
    sample_analysis,
    sample_checks,
    sample_loops,
    sample_memory_analysis,
    sample_plans,
    sample_trace_analysis,
    sample_tune,
    spied_process,
)
from tests.fixtures.gpu_traces import training_file
from tests.fixtures.suites import counted, record, spec

ROOT = Path(__file__).parents[4]
DOCS = ROOT / "docs"
EXAMPLE = ROOT / "examples" / "h100_qwen1.5_forward.json.gz"
PAGE = (DOCS / "json.md").read_text(encoding="utf-8")
PATHS = re.findall(r"^\| `(\w+\.json)` \| `([\w.\[\]]+)` \|", PAGE, re.MULTILINE)

_DISK = DiskRates(mount="/", write_start_s=1e-4, write_bytes_per_s=1e9, read_start_s=1e-4, read_bytes_per_s=2e9)

Sample = Callable[[Path], msgspec.Struct]


def _compare(folder: Path) -> msgspec.Struct:
    return compare_runs([training_file(folder / "before.json"), training_file(folder / "after.json", slower=1.5)])


def _summarize(_: Path) -> msgspec.Struct:
    figures = RowFigures(subject="amp", step=counted(0.1), throughput=Unknown(reason="none"), peak=counted(1e9))
    outcome = VariantOutcome(variant="amp", status=RunStatus.OK)
    return ReportSummary(kind="suite", name="a", created_at="2026-01-31", outcomes=(outcome,), figures=figures)


SAMPLES: dict[str, tuple[Sample, ...]] = {
    "report": (
        lambda _: sample_analysis.realistic(),
        lambda _: sample_analysis.every_status(),
        lambda _: sample_analysis.nothing_measured(),
        lambda _: msgspec.structs.replace(sample_analysis.predicted(), price=Price(per_hour=3.6, currency="$")),
        lambda _: sample_loops.with_capture(),
    ),
    "analysis": (
        lambda _: sample_trace_analysis.realistic(),
        lambda _: sample_trace_analysis.unknown_device(),
        lambda _: sample_trace_analysis.nothing(),
        lambda _: analyze_traces([EXAMPLE], jobs=1),
    ),
    "memory": (
        lambda _: sample_memory_analysis.realistic(),
        lambda _: sample_memory_analysis.out_of_memory(),
        lambda _: sample_memory_analysis.bare(),
    ),
    "check": (*(lambda _, make=make: make() for make in sample_checks.ALL.values()),),
    "comparison": (_compare,),
    "plan": (lambda _: sample_plans.realistic(), lambda _: sample_plans.ranks(), lambda _: sample_plans.nothing()),
    "process": (lambda _: analyze_process(spied_process.facts(), spied_process.threads()),),
    "tune": tuple(
        lambda _, make=make: make()
        for make in (sample_tune.proven, sample_tune.not_proven, sample_tune.no_gain, sample_tune.interrupted)
    ),
    "mfu": (
        lambda _: audit_mfu("mixtral-8x7b", seq_len=4096, tokens_per_s="5000", gpu="h100", claimed="42.3%"),
        lambda _: audit_mfu(params="8b", claimed="48GFLOP"),
        lambda folder: audit_mfu(str(training_file(folder / "trace.json"))),
    ),
    "summary": (_summarize,),
    "spec": (lambda _: spec("amp+ckpt", world_size=2),),
    "run": (
        lambda _: RunResult(status=RunStatus.OK),
        lambda _: RunResult(status=RunStatus.CRASHED, reason="killed", exit_codes=(None, -9)),
    ),
    "calibration": (lambda _: Calibration(disk=_DISK),),
    "error": (lambda _: ErrorOutput(error=ErrorContent(id="usage.wrong", message="no such thing")),),
    "explanation": (*(lambda _, id=id: explain_id(id) for id in list_ids()),),
    "record": (lambda _: record(0.1, losses=(3.0, float("nan"))),),
}


def _write(value: msgspec.Struct) -> Any:
    return _shorten(json.loads(msgspec.json.encode(value)))


def _shorten(content: Any) -> Any:
    """The content with the first entries of each array: the others have the same types, and validating takes long."""
    if isinstance(content, dict):
        return {name: _shorten(value) for name, value in content.items()}
    return [_shorten(value) for value in content[:4]] if isinstance(content, list) else content


def _validate(file: str, content: Any) -> None:
    jsonschema.Draft202012Validator(build_schema(file)).validate(content)


def test_the_schemas_in_the_docs_are_those_of_the_structs() -> None:
    stored = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "schemas").iterdir()}
    assert stored == format_schemas(), "write them anew: make docs-reference"


@pytest.mark.parametrize("file", SAMPLES)
def test_files_are_valid(file: str, tmp_path: Path) -> None:
    schema = build_schema(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    for make in SAMPLES[file]:
        content = _write(make(tmp_path))
        _validate(file, content)
    with pytest.raises(jsonschema.ValidationError):
        _validate(file, {**content, "no_such_field": 1})


def test_a_wrong_type_deep_inside_is_refused() -> None:
    content = _write(sample_trace_analysis.realistic())
    content["traces"][0]["kernels"][0]["seconds"] = "long"
    with pytest.raises(jsonschema.ValidationError) as refused:
        _validate("analysis", content)
    assert list(refused.value.absolute_path) == ["traces", 0, "kernels", 0, "seconds"]


@pytest.mark.parametrize(("file", "struct"), [("report", Variant), ("analysis", OpRow)], ids=["Variant", "OpRow"])
def test_fields_have_the_meaning_that_the_docstring_gives(file: str, struct: type[msgspec.Struct]) -> None:
    definition = build_schema(file)["$defs"][struct.__name__]
    assert list(definition["properties"]) == list(struct.__struct_fields__)
    explained = {
        name: field["description"] for name, field in definition["properties"].items() if "description" in field
    }
    assert explained
    for name, meaning in explained.items():
        assert f"`{name}`" in meaning
        assert "None" not in meaning


def test_the_attributes_of_a_docstring_are_no_part_of_its_description() -> None:
    trace = build_schema("analysis")["$defs"]["RankTrace"]
    assert "Attributes:" not in trace["description"]
    assert {"label", "span_s"} <= {name for name, field in trace["properties"].items() if "description" in field}


def test_the_page_links_every_schema() -> None:
    rows = re.findall(r"^\| `([^|`]+)` \| [^|]+ \| \[(\w+)\]\(schemas/([\w.]+)\) \|$", PAGE, re.MULTILINE)
    assert [name for _, name, _ in rows] == list(ROOTS)
    assert [schema for _, _, schema in rows] == list(format_schemas())
    assert [file for file, name, _ in rows if name in FILES] == [f"{name}.json" for name in FILES]


def test_ids_of_schemas_end_in_the_version_of_the_format() -> None:
    assert build_schema("analysis")["$id"] == f"urn:perfkit:analysis:{TRACE_ANALYSIS_VERSION}"
    assert len({build_schema(name)["$id"] for name in ROOTS}) == len(ROOTS)


@pytest.mark.parametrize("name", ["devices", "findings", "workloads"])
def test_lists_are_valid(name: str, perfkit_in_process: Any) -> None:
    _validate(name, json.loads(perfkit_in_process(name, "--json").stdout))


@pytest.mark.parametrize("make", [sample_plans.realistic, sample_plans.ranks, sample_plans.nothing])
def test_printed_plans_are_valid(make: Callable[[], Plan]) -> None:
    plan = make()
    _validate("plan_output", json.loads(msgspec.json.encode(convert_plan(plan))))
    search = PlanSearch(
        fitting=plan.variants, ordered_by="step time", combinations=4, planned=2, estimated=1, left_out={"amp": "why"}
    )
    _validate("plan_search", json.loads(msgspec.json.encode(convert_search(search))))


def test_the_command_prints_and_lists_schemas(perfkit_in_process: Any) -> None:
    assert json.loads(perfkit_in_process("schema", "error").stdout) == build_schema("error")
    listed = json.loads(perfkit_in_process("schema", "--json").stdout)["schemas"]
    assert [schema["name"] for schema in listed] == list(ROOTS)
    assert [line.split()[0] for line in perfkit_in_process("schema").stdout.splitlines()] == list(ROOTS)
    assert perfkit_in_process("schema", "analisys").returncode == 2


def _resolve(annotation: Any, names: list[str]) -> Iterator[Any]:
    """The types that a path leads to, through options, arrays and structs."""
    arguments = getattr(annotation, "__args__", None)
    if arguments and not (isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)):
        for argument in arguments:
            yield from _resolve(argument, names)
    elif not names:
        yield annotation
    elif isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        hints = get_type_hints(annotation)
        if names[0] in hints:
            yield from _resolve(hints[names[0]], names[1:])


@pytest.mark.parametrize(("file", "path"), PATHS, ids=lambda text: text)
def test_paths_exist(file: str, path: str) -> None:
    found = {
        kind
        for kind in _resolve(ROOTS[file.removesuffix(".json")].load(), path.replace("[]", "").split("."))
        if kind is not type(None)
    }
    assert found
    assert not any(isinstance(kind, type) and issubclass(kind, msgspec.Struct) for kind in found)


def test_the_examples_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    analysis = analyze_traces([EXAMPLE], jobs=1)
    Path("analysis.json").write_bytes(msgspec.json.encode(analysis))
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    with redirect_stdout(StringIO()) as printed:
        exec(code, {})
    gains = [finding for finding in analysis.findings if finding.gain_s]
    slowest = max(row.seconds for row in analysis.traces[0].kernels)
    assert re.findall(r"[\d.]+", printed.getvalue()) == ["35.2", str(len(gains)), f"{slowest * 1e3:.2f}"]
    shown = dict(re.findall(r"^jq (?:-r )?'([^']+)' analysis.json +# ([\w.]+)", PAGE, re.MULTILINE))
    memory = analysis.traces[0].memory
    assert memory is not None
    assert list(shown.values()) == [str(analysis.traces[0].step_s), gains[0].id, str(memory.peak_bytes)]
