"""Renders the page of all facts, `docs/facts.md`."""

from collections.abc import Iterator, Mapping

from perfkit.core.facts import DERIVED, RECORDED_BY_SUBJECT

_FACTS_INTRO = """\
# Facts

<!-- Written by `make docs-reference`. -->

[Claims](claims.md) are about these facts. `perfkit.FACTS` holds the same table for programs. FLOPs are those of GEMMs,
convolutions and attention.
"""
_DERIVED_TITLE = "From the trace"
_DERIVED_INTRO = (
    "The analysis counts these per traced step when a claim names them. `<globs>` is a list of name patterns."
)


def format_facts_page() -> str:
    """All facts by subject, as Markdown."""
    return "\n".join([_FACTS_INTRO, *_format_facts()])


def _format_facts() -> Iterator[str]:
    for subject, facts in RECORDED_BY_SUBJECT.items():
        yield from (f"## {subject}", "", *_format_fact_list(facts), "")
    yield from (f"## {_DERIVED_TITLE}", "", _DERIVED_INTRO, "", *_format_fact_list(DERIVED), "")


def _format_fact_list(facts: Mapping[str, str]) -> Iterator[str]:
    yield from (f"- `{name}`: {meaning}" for name, meaning in facts.items())
