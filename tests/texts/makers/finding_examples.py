"""An example of every kind of finding: the first of its id that the rules' own tests lead to.

The tests build what each rule speaks of; here they are called as functions, and what the rules say is kept. What they
assert does not matter here.
"""

import importlib
import inspect
import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
from tests.texts.makers.document_text import describe_finding

_TESTS = "tests.unit.analysis"
_MODULES = (
    "findings.test_trace_rules",
    "findings.test_needless_work",
    "findings.test_efficiency",
    "pipeline.test_suite_findings",
    "findings.test_scaling_findings",
    "pipeline.test_memory_findings",
    "findings.test_process",
    "findings.test_figures",
    "findings.test_several",
    "flight.test_analyse_flight",
    "suite.test_attached_suite",
    "suite.test_sessions",
    "suite.test_suite",
)
# What tests call: findings, or an analysis that has them.
_COLLECTORS = (
    "collect_trace_findings",
    "collect_suite_findings",
    "collect_memory_findings",
    "find_in_main_thread",
    "find_efficiency_loss",
    "analyze_flight",
    "analyze_suite",
)


def build_findings(others: list[Finding]) -> str:
    """Every kind in the order of `docs/findings.md`, which has their triggers.

    `others` are findings of documents, for what no test leads to.
    """
    examples: dict[str, Finding] = {}
    for finding in itertools.chain(_collect_examples(), others):
        examples.setdefault(finding.id, finding)
    lines = ["# findings", ""]
    for subject in SUBJECTS:
        lines += [f"## {subject.title}", ""]
        for kind in subject.kinds:
            example = examples.get(kind.id)
            lines += [*(describe_finding(example) if example else [f"- `{kind.id}`: no example"]), ""]
    return "\n".join(lines)


def _collect_examples() -> Iterator[Finding]:
    for name in _MODULES:
        yield from _run_module(importlib.import_module(f"{_TESTS}.{name}"))


def _run_module(module: Any) -> list[Finding]:
    """What the rules say while the tests of a module run."""
    found: list[Finding] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in _COLLECTORS:
            if hasattr(module, name):
                patch.setattr(module, name, _record(getattr(module, name), found))
        for name, test in list(vars(module).items()):
            if name.startswith("test_"):
                for given in _list_arguments(test):
                    with tempfile.TemporaryDirectory() as folder:
                        _call(module, test, given, Path(folder))
    return found


def _record(collect: Callable[..., Any], found: list[Finding]) -> Callable[..., Any]:
    def collect_and_record(*args: Any, **kwargs: Any) -> Any:
        result = collect(*args, **kwargs)
        findings = result.findings if hasattr(result, "findings") else (result := tuple(result))
        found.extend(finding for finding in findings if isinstance(finding, Finding))
        return result

    return collect_and_record


def _list_arguments(test: Any) -> list[dict[str, Any]]:
    """The arguments of each case of a test by name."""
    cases: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names, values = mark.args
            names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
            rows = [getattr(row, "values", row) if len(names) > 1 else (row,) for row in values]
            cases = [{**case, **dict(zip(names, row, strict=True))} for case in cases for row in rows]
    return cases


def _call(module: Any, test: Callable[..., None], given: dict[str, Any], folder: Path) -> None:
    """Call a test, whose fixtures are a folder and what its module makes of one; others are left out."""
    if not all(name in given or name == "tmp_path" or hasattr(module, name) for name in _of(test)):
        return
    try:
        arguments = {name: given[name] if name in given else _make_fixture(module, name, folder) for name in _of(test)}
        test(**arguments)
    except (AssertionError, LookupError, TypeError, ValueError):  # pytest says so where they run as tests
        pass


def _make_fixture(module: Any, name: str, folder: Path) -> Any:
    if name == "tmp_path":
        return folder
    make = getattr(module, name)
    function = make.__wrapped__ if hasattr(make, "__wrapped__") else make._get_wrapped_function()
    return function(**{each: _make_fixture(module, each, folder) for each in _of(function)})


def _of(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)
