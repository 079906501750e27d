"""`perfkit explain`: every id has an explanation."""

import json
from typing import Any

import pytest

from perfkit.core.errors import UsageError
from perfkit_cli.pages.explanations import explain_id, list_ids


def test_every_id_is_explained() -> None:
    for id in list_ids():
        explanation = explain_id(id)
        assert explanation.id == id
        assert explanation.trigger


@pytest.mark.parametrize(
    ("id", "kind"),
    [
        ("fusion.elementwise", "finding"),
        ("claim.in_part", "finding"),
        ("ranks.missing", "note"),
        ("skip.no_gpu", "skip"),
        ("usage.unknown_technique", "error"),
        ("claim.amp.matmul_flops_share", "claim"),
        ("inconclusive", "verdict"),
    ],
)
def test_kinds_of_ids(id: str, kind: str) -> None:
    assert explain_id(id).kind == kind


def test_a_word_of_several_verdicts_has_all_meanings() -> None:
    assert explain_id("inconclusive").subject == "Check, Step time"


def test_a_finding_has_trigger_evidence_fix_and_limits(perfkit_in_process: Any) -> None:
    explanation = explain_id("sync.item")
    assert explanation.severity == "gain"
    assert json.loads(perfkit_in_process("explain", "sync.item", "--json").stdout)["fix"] == explanation.fix
    printed = perfkit_in_process("explain", "sync.item").stdout
    for text in (explanation.trigger, explanation.evidence, explanation.fix, explanation.limits):
        assert text
        assert text in printed


@pytest.mark.parametrize("id", ["sync.itm", "claim.amp.no_such_fact", "claim."])
def test_unknown_ids_are_refused(id: str) -> None:
    with pytest.raises(UsageError) as refused:
        explain_id(id)
    assert refused.value.id == "usage.unknown_id"
