"""Renders the page of all kinds of findings, `docs/findings.md`."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from perfkit.analysis.findings.rule import FindingKind, Subject
from perfkit.analysis.pipeline.finding_subjects import SUBJECTS

_WIDTH = 120

INTRO = (
    "Rules (`perfkit/analysis/{trace,suite,memory}/findings/`) are applied to traces, suites, loops and memory "
    "accounts. A finding has a stable id, evidence in figures, an action that names the API, and its saving. "
    "`perfkit explain ID` explains one, with how its gain is computed. JSON holds the `id` and `figures`; a "
    "report links to it as `report.html#finding-fusion-elementwise`.",
    "**Gains of time are simulated**: the trace is [replayed](replay.md) with the finding's change "
    "(`simulated_s`). The summed gain (`gain_s`), the work's own saving, is the upper bound; without a "
    "simulation it is the only figure, with the reason (`not_simulated_reason`). The combined gain of all findings is "
    "shown above them: gains do not add up.",
    "Gains below 1 % of the step, or a tenth of what was not recorded, are not reported. For a job of several ranks, "
    "the one with the largest potential saving is reported; for several variants, the baseline's, with the result of "
    "the technique that follows the advice. In a suite or a loop, gains are scaled to a timed step. A gain without a "
    "number has unknown peaks or costs. Thresholds: `thresholds.py`.",
    "Order: warnings (figures not to trust), gains by seconds, notes (limits of the figures).",
)


def format_page(subjects: Sequence[Subject] = SUBJECTS) -> str:
    """All kinds by subject, as Markdown."""
    return "\n".join(["# Findings", "", *_wrap(INTRO), *(line for subject in subjects for line in _format(subject))])


def _wrap(paragraphs: Sequence[str]) -> Iterator[str]:
    for paragraph in paragraphs:
        yield from wrap(paragraph, _WIDTH, break_long_words=False, break_on_hyphens=False)
        yield ""


def _format(subject: Subject) -> Iterator[str]:
    yield from (f"## {subject.title}", "")
    yield from _wrap((subject.intro,))
    yield from map(_format_item, subject.kinds)
    yield ""


def _format_item(kind: FindingKind) -> str:
    return f"- `{kind.id}` ({kind.severity}): {kind.trigger} → {kind.advice}"
