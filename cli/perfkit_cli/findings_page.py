"""Renders the page of all kinds of findings, `docs/findings.md`."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from perfkit.analysis.findings import SUBJECTS, Subject
from perfkit.analysis.findings.rule import NO_GAIN, FindingKind

_WIDTH = 120

INTRO = (
    "`perfkit bench`, `perfkit run`, attached loops and `perfkit analyze` apply one table of rules "
    "(`perfkit/analysis/findings/tables/`) to traces, suites and memory accounts. A finding has a stable id, "
    "evidence in numbers, an action that names the API, and its saving. `perfkit findings --docs "
    "docs/findings.md` writes this page; `perfkit findings ID` prints one row.",
    "JSON holds the id (`id`), and a report links to it as `report.html#finding-fusion-elementwise`; the "
    "second of a kind ends in `-2`. `figures` are the numbers of the evidence by name and unit.",
    "**Gains of time are simulated**: the trace is [replayed](replay.md) with the finding's change, and the "
    "gain is the difference in step time. The summed gain, by which the work itself gets shorter, follows as "
    'the upper bound; the details state its assumption: "all time above the roof" '
    'is more than kernels can save. Where simulation is not possible, the sum stands alone, "up to", with the '
    "reason. In JSON: `simulated_s`, `not_simulated`, `gain_s` (the sum). The combined gain of all findings stands "
    "above them: gains do not add up. Findings about several ranks, memory and loops without a trace are not "
    "simulated.",
    "Gains with a sum below 1 % of the step are not reported. Findings about the same time name each other. Of "
    "the ranks of a job, the one with the largest potential saving is reported, with the other ranks that "
    "share the finding; of several variants the baseline, with the result of the technique that follows the "
    "advice. In a suite or a loop, gains are scaled to a timed step, free of profiler overhead. A gain without "
    "a number has unknown peaks or costs. Thresholds, with their reasons: `thresholds.py`.",
    (
        "Order: warnings (figures not to trust), gains by seconds (simulated, else summed), notes (limits of the "
        "figures)."
    ),
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
