"""Rules and the kinds of findings that they report, as rows of tables."""

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from math import inf
from typing import Any, NamedTuple

from msgspec.structs import replace

from perfkit.analysis.findings.change import NOTHING, Change
from perfkit.analysis.model.finding import Finding

GAIN, WARNING, NOTE = "gain", "warning", "note"
NO_GAIN = "no gain"


class About(IntEnum):
    """The subject of a finding, in the order in which findings of one severity are shown: outcomes of variants,
    estimates from a step, limits of the figures, memory."""

    OUTCOME = 0
    STEP = 1
    LIMIT = 2
    MEMORY = 3


class RuleResult(NamedTuple):
    """A finding, the parts of step time that its gain covers, and the change that it simulates.

    Where two are about the same time, both say so, since their gains do not add up. `most_s` bounds the simulated gain.
    """

    finding: Finding
    scope: frozenset[str] = frozenset()
    change: Change = NOTHING
    most_s: float = inf


class FindingKind(NamedTuple):
    """A kind of finding by its stable `id`.

    `trigger` says when it is reported, `advice` what to do, `gain` how its saving is computed: a sentence each, in
    `docs/findings.md`. `techniques` are perfkit's that follow the advice, the first first; each declares the id as its
    `advice`.
    """

    id: str
    severity: str
    trigger: str
    advice: str
    gain: str = NO_GAIN
    techniques: tuple[str, ...] = ()


class Rule(NamedTuple):
    """`check` reports findings of these `kinds` about a subject of type `reads`."""

    check: Callable[[Any], Iterator[Finding | RuleResult]]
    reads: type
    about: About
    kinds: tuple[FindingKind, ...]


class Subject(NamedTuple):
    """Rules, or kinds that are reported outside of the rules, under a heading of `docs/findings.md`."""

    title: str
    intro: str
    rules: tuple[Rule, ...] = ()
    others: tuple[FindingKind, ...] = ()

    @property
    def kinds(self) -> tuple[FindingKind, ...]:
        """The distinct kinds, in the order of the rules."""
        return tuple(dict.fromkeys([*(kind for rule in self.rules for kind in rule.kinds), *self.others]))


def run_rules(rules: Iterable[Rule], subject: object) -> Iterator[tuple[Rule, RuleResult]]:
    """The results of every rule that reads such a subject."""
    for rule in rules:
        if isinstance(subject, rule.reads):
            for reported in rule.check(subject):
                result = reported if isinstance(reported, RuleResult) else RuleResult(reported)
                declared = (result.finding.id, result.finding.severity)
                kind = next((kind for kind in rule.kinds if kind[:2] == declared), None)
                assert kind is not None, f"{rule.check.__name__} declares no {declared}"
                yield rule, _add_techniques(result, kind)


def _add_techniques(result: RuleResult, kind: FindingKind) -> RuleResult:
    if not kind.techniques or result.finding.techniques:
        return result
    return result._replace(finding=replace(result.finding, techniques=kind.techniques))


def collect_findings(rules: Iterable[Rule], subject: object) -> Iterator[tuple[int, Finding]]:
    """The findings, each with its place in the order of reports."""
    return ((rule.about, result.finding) for rule, result in run_rules(rules, subject))
