"""Each technique declares what others know of it: a declaration that is left out or points nowhere fails here."""

import re
from collections.abc import Iterator

import pytest

from perfkit.analysis.memory.findings import memory_rules
from perfkit.analysis.memory.findings.remedies import FUSED_UPDATE, LOGITS, REMEDIES, SCORES, Remedy
from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
from perfkit.analysis.pipeline.memory_findings import collect_memory_findings
from perfkit.core.spec import parse_variants
from perfkit.plan.advise.targets import ESTIMATES
from perfkit.plan.search.memory_savings import list_savings
from perfkit.techniques.base.planning import ESTIMATED, Counted
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import LOSSLESS, Purpose, Technique
from perfkit.techniques.compose import compose_techniques
from tests.unit.analysis.pipeline.test_memory_findings import account, only

KINDS = [TECHNIQUES.load(name) for name in TECHNIQUES.list_names()]
SAVINGS = [(kind, saving) for kind in KINDS for saving in kind.planning.savings]


@pytest.mark.parametrize("kind", KINDS)
def test_every_technique_declares_its_purpose_its_parity_and_its_planning(kind: type[Technique]) -> None:
    assert {"purpose", "planning"} <= vars(kind).keys()
    assert kind.purpose is not Purpose.OTHERS
    own = kind.mro()[: kind.mro().index(Technique)]
    assert any({"parity", "parity_rule"} & vars(each).keys() for each in own)


@pytest.mark.parametrize("kind", KINDS)
def test_effects_declared_as_estimated_have_an_estimate_and_no_others(kind: type[Technique]) -> None:
    assert (kind.planning.time_effect is ESTIMATED) == (kind.name in ESTIMATES)


@pytest.mark.parametrize(("kind", "saving"), SAVINGS)
def test_savings_are_of_the_technique_itself_at_the_price_that_it_declares(kind, saving) -> None:
    assert saving.tried
    assert {*saving.searched} <= {*saving.tried}
    for variant in saving.tried:
        ((spec,),) = parse_variants(variant)
        (technique,) = compose_techniques((spec,))
        assert technique.name == kind.name
        assert (technique.parity() == LOSSLESS) == saving.price.is_lossless


def test_savings_are_listed_cheapest_first_without_those_of_more_ranks() -> None:
    alone = [variant for saving in list_savings(1) for variant in saving.tried]
    assert alone == [
        *("flash", "optim_in_backward", "accum", "fused_ce", "ckpt:mode=selective", "ckpt:every=sqrt", "ckpt"),
        *("amp", "bf16", "optim:use=adamw8bit", "optim:use=adafactor"),
    ]
    several = [variant for saving in list_savings(2) for variant in saving.tried]
    assert several[:3] == ["zero1", "zero2", "zero3"]
    cast = ["zero2:param_dtype=bf16", "zero3:param_dtype=bf16"]
    assert [variant for variant in several[3:] if variant not in cast] == alone
    assert several.index("amp") < several.index(cast[0]) < several.index(cast[1]) < several.index("bf16")


def test_rules_and_techniques_name_each_other() -> None:
    """A finding names the techniques that follow its advice, and each of them declares the finding, and no other."""
    assert {(kind.name, finding) for kind in KINDS for finding in kind.advice} == {*_list_advised()}


# Words of an advice for what a technique does.
_WORDS = {
    "amp": r"torch\.autocast`|autocast,",
    "channels_last": r"channels[-_]last",
    "ckpt": r"[Cc]heckpoint",
    "compile": r"torch\.compile",
    "data": r"num_workers|pin_memory|pinned memory",
    "flash": r"scaled_dot_product_attention|SDPBackend",
    "optim": r"fused=True|fused optimizer|in 8 bits",
    "optim_in_backward": r"update in backward",
    "pp": r"schedule with less bubble",
    "tf32": r"TF32",
}
# Where the words are about something else than a technique of perfkit does.
_NOT_MEANT = {
    ("optimizer.unfused", "compile"),  # the optimizer's step, which `compile` leaves alone
    ("memory.activations", "data"),
    ("memory.recomputed_activations", "ckpt"),  # what is checkpointed is another choice of blocks
    ("steps.outliers", "ckpt"),  # files
    ("loop.checkpoints", "ckpt"),
}


def test_a_gain_whose_advice_names_what_a_technique_does_names_the_technique() -> None:
    answered = {(finding, technique) for technique, finding in _list_advised()}
    gains = [kind for subject in SUBJECTS for kind in subject.kinds if kind.severity == "gain"]
    named = {(kind.id, name) for kind in gains for name, words in _WORDS.items() if re.search(words, kind.advice)}
    assert named - answered <= _NOT_MEANT


def test_what_findings_name_is_a_variant_that_a_bench_takes() -> None:
    for kind in (kind for subject in SUBJECTS for kind in subject.kinds):
        for technique in kind.techniques:
            (specs,) = parse_variants(technique)
            compose_techniques(specs)


def _list_advised() -> Iterator[tuple[str, str]]:
    """Techniques with the ids of the findings whose kinds or remedies name them."""
    for kind in (kind for subject in SUBJECTS for kind in subject.kinds):
        yield from ((technique.partition(":")[0], kind.id) for technique in kind.techniques)
    for category, remedies in REMEDIES.items():
        finding = only(collect_memory_findings(account({category: 400})))
        yield from _pair_remedies(remedies, finding.id)
    yield from _pair_remedies(SCORES, memory_rules.SCORES.id)
    yield from _pair_remedies(LOGITS, memory_rules.LOGITS.id)
    yield from _pair_remedies((FUSED_UPDATE,), memory_rules.TEMPORARIES.id)


def _pair_remedies(remedies: tuple[Remedy, ...], finding: str) -> Iterator[tuple[str, str]]:
    return ((remedy.technique.partition(":")[0], finding) for remedy in remedies if remedy.technique)


def test_what_another_package_leaves_out_has_safe_defaults() -> None:
    class Undeclared(Technique):
        pass

    assert Undeclared.purpose is Purpose.OTHERS
    assert Undeclared.planning.time_effect is not ESTIMATED
    assert Undeclared.planning.counted is Counted.NOTHING
    assert Undeclared.planning.savings == ()
