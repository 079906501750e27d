"""The facts are listed once for programs and once for people, alike."""

import re
from pathlib import Path

import pytest

from perfkit.facts import DERIVED, FACTS, RECORDED
from perfkit.techniques.table import TECHNIQUES
from perfkit.techniques.technique import build_first_example
from tests.unit.techniques.tiny import new_state

DOCS = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()


def documented(first: str) -> list[str]:
    """The names in the table that begins with the row of `first`."""
    rows = DOCS[DOCS.index(f"| `{first}`") :].partition("\n\n")[0].splitlines()
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def test_the_docs_have_the_same() -> None:
    assert documented("parameter_bytes") == list(RECORDED)
    assert documented("op_calls:<globs>") == list(DERIVED)


@pytest.mark.parametrize("name", TECHNIQUES.list_names())
def test_the_claims_of_techniques_are_about_them(name: str) -> None:
    state = new_state()
    state.build_optimizers()
    kinds = {fact.partition(":")[0] for fact in FACTS}
    claims = build_first_example(TECHNIQUES.load(name)).claims(state)
    assert claims
    assert {claim.fact.partition(":")[0] for claim in claims} <= kinds
