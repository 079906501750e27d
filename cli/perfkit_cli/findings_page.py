"""The page of all kinds of findings, as `docs/findings.md` has it."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from perfkit.analysis.findings import SUBJECTS, Subject
from perfkit.analysis.findings.rule import NO_GAIN, FindingKind

_WIDTH = 120

INTRO = (
    "`perfkit bench`, `perfkit run`, attached loops and `perfkit analyze` judge traces, suites and accounts of "
    "memory by one table of rules (`perfkit/analysis/findings/tables/`). A finding has a stable id, evidence in "
    "numbers, an action that names the API, and what it could save. `perfkit findings --docs docs/findings.md` "
    "writes this page; `perfkit findings ID` prints the row of one.",
    "The id is in JSON (`id`), and a link to it in a report is `report.html#finding-fusion-elementwise`; the "
    "second of a kind ends in `-2`. `figures` are the numbers of the evidence by name and unit.",
    "**Gains of time are simulated**: the trace is [replayed](replay.md) with what the finding would change, and "
    "the step is so much shorter. The sum of what the work itself takes less stands second, as the upper bound; "
    'the details say what it assumes: no kernel reaches "all of their time beyond the roof". Where nothing can be'
    ' simulated the sum stands alone, "up to", with the reason. In JSON: `simulated_s`, `not_simulated`, `gain_s`'
    " (the sum). Above the findings stands what all of them gain at once: gains do not add up. Findings about "
    "several ranks, memory and loops that were not traced are not simulated.",
    "No gain whose sum is below 1 % of the step is reported. Findings about the same time name each other. Of the"
    " ranks of a job the one with the largest potential savings is reported, with the other ranks on which it "
    "holds; of several variants the baseline, with the outcome of the technique that does what the finding "
    "advises. In a suite or a loop, gains are the same part of a timed step, which no profiler slowed down. A "
    "gain without a number is one whose peaks or costs are not known. Thresholds, with their reasons: "
    "`thresholds.py`.",
    "Order: warnings (what not to trust), gains by seconds (simulated, else summed), notes (what limits the figures).",
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
    yield "| id | trigger | advice | gain |"
    yield "|---|---|---|---|"
    yield from map(_format_row, subject.kinds)
    yield ""


def _format_row(kind: FindingKind) -> str:
    gain = f"{NO_GAIN} ({kind.severity})" if kind.gain == NO_GAIN else kind.gain
    return f"| `{kind.id}` | {kind.trigger} | {kind.advice} | {gain} |"


def format_kind(kind: FindingKind) -> str:
    """One kind, for a terminal."""
    return "\n".join(
        (
            f"{kind.id} ({kind.severity})",
            f"  trigger  {kind.trigger}",
            f"  advice   {kind.advice}",
            f"  gain     {kind.gain}",
        )
    )
