"""Another package's plug-in that is broken is listed as broken with its reason; all else works."""

import json
import warnings
from pathlib import Path

import pytest

from perfkit.core.errors import PerfkitError
from perfkit.core.record.claim import Claim, Relation
from perfkit.core.registry import BrokenPluginError
from perfkit.core.spec import TechniqueSpec, parse_workload
from perfkit.cost import formula_table
from perfkit.measure.bench import find_dtype_refusal
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.expand_all import expand_variants
from perfkit.workloads.workload_table import WORKLOADS, load_workload
from tests.fixtures import plugins

REASONS = {
    "lacks": "has no attribute 'Missing'",
    "number": "subclass of perfkit.Technique",
    "nameless": "it lacks name, summary, stage",
    "other-name": "'ddp'",
    "raises": "RuntimeError: no idea",
    "required": "Missing required argument 'width'",
    "not-there": "ModuleNotFoundError: No module named 'no_such_module'",
    "malformed": "has no attribute ''",
}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins.install(monkeypatch)


def test_techniques_are_listed_as_broken_with_the_reason(perfkit_in_process) -> None:
    ended = perfkit_in_process("techniques", "--json")
    assert ended.returncode == 0, ended.stderr
    items = {item["name"]: item for item in json.loads(ended.stdout)["techniques"]}
    for name, reason in REASONS.items():
        assert reason in items[name]["broken"]
        assert f"the technique {name!r} of another package (" in items[name]["broken"]
    assert {name for name, item in items.items() if item["broken"]} == REASONS.keys()
    assert items["works"]["parameters"] == {"depth": "integer [2]"}
    printed = " ".join(perfkit_in_process("techniques").stdout.split())
    assert "raises no broken: " in printed
    assert "RuntimeError: no idea" in printed


def test_workloads_are_listed_as_broken_with_the_reason(perfkit_in_process) -> None:
    ended = perfkit_in_process("workloads", "--json")
    assert ended.returncode == 0, ended.stderr
    items = {item["name"]: item for item in json.loads(ended.stdout)["workloads"]}
    assert "'no_such_module'" in items["absent"]["broken"]
    assert "perfkit.workloads.parameters.Parameters" in items["wrong"]["broken"]
    assert {name for name, item in items.items() if item["broken"]} == {"absent", "wrong"}
    assert items["plain"]["parameters"]["layers_more"] == "[3]"  # a field with a plain type


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--technique", "amp,not-there"), "technique 'not-there'"),
        (("--technique", "other-name"), "'ddp'"),
        (("--workload", "absent"), "workload 'absent'"),
    ],
)
def test_a_bench_that_asks_for_one_says_what_is_broken_in_a_line(perfkit_in_process, arguments, reason) -> None:
    ended = perfkit_in_process("bench", "--no-calibrate", *arguments)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[0].startswith("Error: the ")
    assert reason in ended.stderr
    assert "Traceback" not in ended.stderr


def test_what_works_is_not_disturbed() -> None:
    assert TECHNIQUES.load("works") is plugins.Works
    assert load_workload(parse_workload("gpt", WORKLOADS.list_names())).name == "gpt nano"


def test_a_question_that_a_plug_in_cannot_answer_names_it_and_one_that_it_answers_with_an_error_is_passed_on() -> None:
    def refuse(kind: object) -> None:
        raise PerfkitError("as it says")

    with pytest.raises(BrokenPluginError, match=r"'works'.* ZeroDivisionError"):
        TECHNIQUES.ask_object("works", lambda kind: 1 // 0)
    with pytest.raises(PerfkitError, match=r"^as it says$"):
        TECHNIQUES.ask_object("works", refuse)
    with pytest.raises(ZeroDivisionError):
        TECHNIQUES.ask_object("amp", lambda kind: 1 // 0)  # our own mistake keeps its traceback


def test_a_technique_that_raises_when_it_is_asked_for_its_dtype_fails_in_its_own_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def computes_in(self: plugins.Works, dtype: str) -> str:
        raise KeyError(dtype)

    monkeypatch.setattr(plugins.Works, "computes_in", computes_in)
    assert not find_dtype_refusal((TechniqueSpec(name="works"),), "cpu", "fp32")


def test_ops_whose_formula_is_broken_have_no_known_work(monkeypatch: pytest.MonkeyPatch) -> None:
    formula_table.find_formula.cache_clear()
    formula_table._list_other_names.cache_clear()
    try:
        with pytest.warns(UserWarning, match="'mylib::broken'"):
            assert not formula_table.has_formula("mylib::broken")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not formula_table.has_formula("mylib::broken")  # said once
    finally:
        formula_table.find_formula.cache_clear()
        formula_table._list_other_names.cache_clear()


def test_all_is_without_what_is_broken() -> None:
    with pytest.warns(UserWarning, match="is broken") as warned:
        variants = expand_variants("all").split(",")
    assert "works" in variants
    assert not REASONS.keys() - {"raises"} & {*variants}  # what raises for a device is asked in its run
    assert len(warned) == len(REASONS) - 1


@pytest.mark.nightly
def test_pages_are_written_of_what_is_not_broken(perfkit_in_process, monkeypatch, tmp_path: Path) -> None:
    def claims(self: plugins.Works, state: TrainState) -> tuple[Claim, ...]:
        return (plugins_claim(state.facts["found by apply"]),)

    def plugins_claim(value: float) -> Claim:
        return Claim(technique="works", statement="it acts", fact="graphs", relation=Relation.EQUAL, value=value)

    monkeypatch.setattr(plugins.Works, "claims", claims)
    ended = perfkit_in_process("techniques", "--docs", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "## Checks" in (tmp_path / "works.md").read_text()
    assert "it acts" not in (tmp_path / "works.md").read_text()
    assert "[`works`](works.md)" in (tmp_path / "index.md").read_text()
    assert "'not-there'" in ended.stderr
    assert not (tmp_path / "not-there.md").exists()
