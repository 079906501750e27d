"""A check's report.html: what got worse, by how much against its threshold, and why."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from perfkit.check.result import Check, CheckedVariant, Judged, Side, Verdict
from perfkit.store.pairs import ALTERNATING, LOCK_STEP
from perfkit_reports.cells import Cell
from perfkit_reports.charts.pairs import clocks, pairs_figure
from perfkit_reports.check.forest import forest
from perfkit_reports.environment import environment_items
from perfkit_reports.page import embed, page
from perfkit_reports.plain import one_line
from perfkit_reports.subjects.check import quantities as judged_cells
from perfkit_reports.subjects.check import story
from perfkit_reports.subjects.check import why as why_rows

DOCUMENTATION = "docs/check.md"
_MOST_SUSPECTS = 3  # in the summary

# Always different between a machine and the next, a revision and the next: no reason to doubt a comparison.
_OF_NO_CONSEQUENCE = {"Host", "Git revision"}

# What needs a look comes first.
_ORDER = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.NOT_COMPARED, Verdict.IMPROVED, Verdict.PASS)


class Head(NamedTuple):
    """What the frame of every report says."""

    title: str
    created_at: str
    perfkit: str


def render(check: Check) -> str:
    """The whole page. Everything from the check is escaped; nothing is fetched when it is opened."""
    ordered = sorted(check.variants, key=lambda variant: _ORDER.index(verdict_of(variant)))
    drawn = {f"pairs-{place}": pairs_figure(variant) for place, variant in enumerate(ordered)}
    figures = {name: figure for name, figure in drawn.items() if figure is not None}
    return page(
        "check/page.html.j2",
        figures,
        analysis=Head(f"{check.verdict.value}: {story.sides(check)}", check.created_at, check.perfkit),
        check=check,
        variants=ordered,
        sections=_sections(ordered, figures),
        story=story,
        judged=judged_cells,
        tone=judged_cells.TONES.get(check.verdict, "unsure"),
        verdict_of=verdict_of,
        tone_of=lambda variant: judged_cells.TONES.get(verdict_of(variant), "unsure"),
        forest=forest,
        words=in_words,
        suspects=_suspects(ordered),
        why=why_rows,
        clocks=clocks,
        plain=one_line,
        environments=environments(check.before, check.after),
        turns={variant.turns for variant in check.variants if variant.turns},
        LOCK_STEP=LOCK_STEP,
        ALTERNATING=ALTERNATING,
        documentation=DOCUMENTATION,
        check_json=embed(msgspec.json.encode(check).decode()),
    )


def verdict_of(variant: CheckedVariant) -> Verdict:
    """The worst of its gated quantities."""
    found = {each.verdict for each in story.gated(variant)}
    return next((each for each in _ORDER if each in found), Verdict.NOT_COMPARED)


def in_words(item: Judged) -> str:
    """What a row's bar shows, for those who listen to it."""
    change = judged_cells.change(item)
    interval = f" ({change.detail})" if change.detail else ""
    return f"{one_line(item.title)}: {change.text}{interval}, threshold {judged_cells.threshold(item).text}"


def environments(before: Side, after: Side) -> list[tuple[str, Cell, Cell, bool]]:
    """(name, before, after, whether they differ in what changes numbers); what both leave out is not there."""
    sides = [dict(environment_items(side.environment)) if side.environment else {} for side in (before, after)]
    missing = Cell("not recorded")
    rows = []
    for name in sides[0] | sides[1]:
        was, now = (side.get(name, missing) for side in sides)
        rows.append((name, was, now, was.text != now.text and name not in _OF_NO_CONSEQUENCE))
    return rows


def _suspects(variants: Iterable[CheckedVariant]) -> list[tuple[str, str]]:
    """(variant, what stands out) for the summary, of those that did not simply pass."""
    return [
        (story.name(variant), text)
        for variant in variants
        if not story.uneventful(variant)
        for text in story.suspects(variant)[:_MOST_SUSPECTS]
    ]


def _sections(variants: list[CheckedVariant], figures: Mapping[str, object]) -> list[tuple[str, str]]:
    """(id, title) of the sections that have something to say."""
    sections = [("summary", "Verdict")]
    if variants:
        sections.append(("results", "Quantities"))
    if any(variant.why for variant in variants):
        sections.append(("why", "Why"))
    if figures:
        sections.append(("pairs", "Pairs"))
    return [*sections, ("method", "Method"), ("environment", "Environment")]
