"""The report on an attached loop: step time, its split, and how it was recorded."""

from collections.abc import Iterator

from perfkit.analysis.model.suite import Analysis, Variant
from perfkit_reports.document.blocks import Block, Facts, Group, Section, Table, Text
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.loop import goodput, loop_facts, loop_headline, stacks
from perfkit_reports.subjects.suite import communication, experts, predictions, sections, suite_columns
from perfkit_reports.subjects.suite.traced_sections import (
    build_trace_details,
    build_traced_section,
    build_why_section,
)
from perfkit_reports.subjects.tables import make_list, make_table

_UNTRACED = "No step of the loop was traced; see “Recording” for its progress."
_UNFOUND = "No traced step and no recorded memory: nothing to analyze yet."


def build_document(analysis: Analysis) -> Document:
    """The document of an attached loop: the first variant is the loop, others are later captures."""
    first = analysis.variants[0]
    examined = any(variant.time_split or variant.memory for variant in analysis.variants)
    waits = any(variant.loop and variant.loop.data_waits_s for variant in analysis.variants)
    return sections.build_suite_document(
        analysis,
        headline=loop_headline.build_headline(first),
        lead=loop_headline.list_remarks(analysis.variants, analysis.load),
        summary=[_build_loops(analysis), *sections.build_peaks(analysis), *_build_steps(analysis)],
        sections=[
            *build_why_section(analysis, "loop", _UNTRACED),
            *predictions.build_prediction_sections(analysis),
            sections.build_findings_section(analysis, "Loop", "" if examined else _UNFOUND),
            *build_traced_section(analysis, "loop", "the first step to a later capture's"),
            *goodput.build_sections(analysis),
            *experts.build_sections(analysis),
        ],
        details=[
            *build_trace_details(analysis, "loop"),
            *communication.build_sections(analysis),
            sections.build_samples_section(
                analysis,
                "Dots are steps; the bar is the median.",
                *(["Hollow dots mark the data wait of the same step."] if waits else []),
                *(["Steps of the slowest rank."] if first.world_size > 1 else []),
            ),
            *stacks.build_sections(analysis),
            _build_watched(analysis),
        ],
    )


def _build_loops(analysis: Analysis) -> Table:
    alone = len(analysis.variants) == 1
    title = "Loop" if alone else "Loop and later captures"
    compared = () if alone else ("Memory changes are relative to the first row.",)
    compared = (*compared, *sections.describe_utilization(analysis))
    return sections.build_variant_table(
        analysis, title, suite_columns.build_loop_columns(analysis), "capture", *compared
    )


def _build_steps(analysis: Analysis) -> Iterator[Block]:
    """The steps behind the figures."""
    alone = len(analysis.variants) == 1
    lines = [
        f"{'' if alone else f'{variant.name}: '}{loop_facts.describe_steps(loop)}; step boundary: {loop.step_marker}."
        for variant, loop in loop_facts.list_loops(analysis)
    ]
    yield Text(id="steps-timed", lines=tuple(lines), style="caption", weight=Weight.BRIEF)


def _build_watched(analysis: Analysis) -> Section:
    intro = (
        "Instruments ran one after another, each for a few steps of the loop; timed steps ran without any.",
        (
            "Step times are not corrected for profiler slowdown; savings found in traced steps are "
            "scaled to timed steps."
        ),
    )
    alone = len(analysis.variants) == 1
    blocks = []
    for place, (variant, loop) in enumerate(loop_facts.list_loops(analysis)):
        some: list[Block] = [Facts(id=f"watched-{place}-facts", items=tuple(loop_facts.list_facts(loop)))]
        if len(loop.ranks) > 1:
            title = f"Ranks of {variant.name}"
            some += make_table(
                f"watched-{place}-ranks", title, loop_facts.RANKS, loop.ranks, "rank", data="", limit=None
            )
        some += _build_caveats(variant, place)
        weight = min(block.weight for block in some)
        title = "" if alone else variant.name
        blocks.append(Group(id=f"watched-{place}", title=title, blocks=tuple(some), weight=weight))
    return Section("watched", "Recording", tuple(blocks), nav="Recording", intro=intro)


def _build_caveats(variant: Variant, place: int) -> Iterator[Block]:
    """Missing or doubtful parts, except the first if the headline's remarks repeat it."""
    repeated = loop_headline.count_repeated_warnings(variant)
    yield from make_list(f"watched-{place}-missing", variant.warnings[:repeated], "Caveats", style="callout")
    warnings = variant.warnings[repeated:]
    yield from make_list(f"watched-{place}-caveats", warnings, "Caveats", style="callout", weight=Weight.BRIEF)
