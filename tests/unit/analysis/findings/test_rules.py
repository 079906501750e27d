"""The table of rules: every kind of finding has an id of its own, and every rule reports only what it declares."""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import perfkit
from perfkit.analysis.findings.processes import COLLECTIVES, MAIN_THREAD
from perfkit.analysis.findings.rule import GAIN, NO_GAIN, NOTE, WARNING, About, FindingKind, Rule, run_rules
from perfkit.analysis.flight import flight_findings as flight
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
from perfkit.analysis.stacks import main_thread
from perfkit.flight.mismatch import Mismatch

RULES = [rule for subject in SUBJECTS for rule in subject.rules]
KINDS = [kind for subject in SUBJECTS for kind in subject.kinds]
ID = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*")
PACKAGE = Path(perfkit.__file__).parent
FILES = sorted(PACKAGE.glob("analysis/*/findings/*.py"))


def ids_of(module: ModuleType) -> set[str]:
    """What looks like an id among the strings of a module, `sync.` ones by what follows."""
    return set(_ids(ast.parse(inspect.getsource(module))))


def _ids(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ID.fullmatch(node.value):
            yield node.value


def test_each_id_is_of_one_kind() -> None:
    several = [name for name, count in Counter(kind.id for kind in set(KINDS)).items() if count > 1]
    assert several == []
    assert len(set(KINDS)) == len({kind.id for kind in KINDS}) > 90


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
def test_a_kind_is_described(kind: FindingKind) -> None:
    assert ID.fullmatch(kind.id)
    assert kind.severity in (GAIN, WARNING, NOTE)
    assert (kind.gain == NO_GAIN) == (kind.severity != GAIN)
    for sentence in (kind.trigger, kind.advice):
        assert sentence[0].isupper() or sentence.startswith(("`", "torch."))
        assert sentence.endswith(".")
        assert "|" not in sentence  # it is a cell of a table


def test_every_rule_reports_something_of_a_subject() -> None:
    assert all(rule.kinds for rule in RULES)
    assert len({rule.check for rule in RULES}) == len(RULES)


def test_modules_name_the_ids_that_their_rules_declare_and_no_other() -> None:
    """Ids are literals where findings are built; those of `sync` are put together of their cause."""
    declared: dict[str, set[str]] = {}
    for rule in RULES:
        declared.setdefault(rule.check.__module__, set()).update(kind.id for kind in rule.kinds)
    built = {name: set() for name in declared} | {
        ".".join(("perfkit", *path.relative_to(PACKAGE).with_suffix("").parts)): set(_ids(ast.parse(path.read_text())))
        for path in FILES
        if path.name not in ("__init__.py", "memory_rules.py")
    }
    known = {kind.id for kind in KINDS}
    for name, ids in declared.items():
        synchronizations = {each for each in ids if each.startswith("sync.") and each != "sync.device_allocation"}
        # A loop's wait for its data is built where a trace's is.
        elsewhere = {"data.starved"} if name.endswith("suite.findings.loops") else set()
        assert built[name] & known == ids - synchronizations - elsewhere, name
    assert all(ids & known == declared.get(name, set()) & ids & known for name, ids in built.items())


def test_what_is_found_without_rules_has_declared_ids() -> None:
    assert ids_of(flight) == {kind.id for kind in COLLECTIVES}
    assert {mismatch for mismatch in Mismatch if mismatch is not Mismatch.ABSENT} == set(flight._IDS)
    assert ids_of(main_thread) == {kind.id for kind in MAIN_THREAD}


def test_a_rule_that_reports_an_id_that_it_does_not_declare_is_refused() -> None:
    def check(subject: str) -> Iterator[Finding]:
        yield Finding(id="limit.other", severity=NOTE, title=subject, variant="", evidence="", action="")

    declared = FindingKind("limit.one", NOTE, "Always.", "Nothing.")
    with pytest.raises(AssertionError, match=r"limit\.other"):
        list(run_rules([Rule(check, str, About.LIMIT, (declared,))], "x"))
