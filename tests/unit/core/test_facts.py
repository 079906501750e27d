"""The facts are listed once: claims are about them, and docs/facts.md is made of them."""

from pathlib import Path

import pytest

from perfkit.core.facts import FACTS
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import build_first_example
from perfkit_cli.reference.facts_page import format_facts_page
from tests.unit.techniques.tiny import new_state

PAGE = Path(__file__).parents[3] / "docs" / "facts.md"


def test_the_page_in_the_docs_is_that_of_the_table() -> None:
    assert PAGE.read_text() == format_facts_page(), "write it anew: make docs-reference"
    rows = [line for line in format_facts_page().splitlines() if line.startswith("- `")]
    assert [row.split("`")[1] for row in rows] == list(FACTS)


@pytest.mark.parametrize("name", TECHNIQUES.list_names())
def test_the_claims_of_techniques_are_about_them(name: str) -> None:
    state = new_state()
    state.build_optimizers()
    kinds = {fact.partition(":")[0] for fact in FACTS}
    claims = build_first_example(TECHNIQUES.load(name)).claims(state)
    assert claims
    assert {claim.fact.partition(":")[0] for claim in claims} <= kinds
