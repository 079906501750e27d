"""The report on a suite: comparison of variants, and the time and memory of each."""

from collections.abc import Iterator
from dataclasses import replace

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.pipeline.fastest_variant import is_sound
from perfkit.core.record.quantity import Measurement
from perfkit.core.units import format_seconds
from perfkit_reports.charts import pareto
from perfkit_reports.document.blocks import Block, Chart, Group, Table, Text
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects import pipelines, recomputation
from perfkit_reports.subjects.memory import memory_sentences
from perfkit_reports.subjects.suite import (
    communication,
    experts,
    losses,
    next_techniques,
    sections,
    sizes,
    suite_cells,
    suite_columns,
    suite_headline,
)
from perfkit_reports.subjects.suite.chart_styles import assign_variant_styles
from perfkit_reports.subjects.suite.predictions import build_prediction_sections
from perfkit_reports.subjects.suite.scaling import build_scaling_sections
from perfkit_reports.subjects.suite.traced_sections import (
    build_trace_details,
    build_traced_section,
    build_why_section,
)
from perfkit_reports.subjects.tables import make_list
from perfkit_reports.wording import format_sentence

_LANES = (
    "Dots are steps, lanes are processes, bars are each process's median.",
    "Verdicts compare processes, not single steps.",
)
_UNTRACED = "No variant was traced."


def build_document(analysis: Analysis) -> Document:
    """The document of a suite of compared variants; `loop_document` draws those of attached loops."""
    return sections.build_suite_document(
        analysis,
        headline=suite_headline.build_headline(analysis),
        lead=suite_headline.list_remarks(analysis),
        summary=[
            *_build_command(analysis),
            _build_first_screen(analysis),
            *_build_not_measured(analysis),
            *_build_found(analysis),
        ],
        sections=[
            *build_scaling_sections(analysis),
            *sizes.build_sections(analysis),
            *build_why_section(analysis, "variant", _UNTRACED),
            *next_techniques.build_sections(analysis),
            *build_prediction_sections(analysis),
            sections.build_findings_section(analysis, "Variant"),
            *build_traced_section(analysis, "variant", "the baseline's step to a variant's"),
        ],
        details=[
            *build_trace_details(analysis, "variant"),
            *losses.build_sections(analysis),
            *recomputation.build_sections(analysis.recomputations),
            *experts.build_sections(analysis),
            *communication.build_sections(analysis),
            *pipelines.build_sections(
                (each.name, each.pipeline) for each in analysis.variants if each.pipeline is not None
            ),
            sections.build_samples_section(analysis, *_LANES),
        ],
    )


def _build_command(analysis: Analysis) -> tuple[Text, ...]:
    purpose, command = suite_headline.build_command(analysis)
    title = f"{purpose}:" if purpose else ""
    return make_list("command", [command] if command else [], title, style="code", weight=Weight.BRIEF)


def _build_first_screen(analysis: Analysis) -> Block:
    """The table of variants beside the trade-off of speed and memory."""
    chart = _build_trade_off(analysis)
    table = _build_variants(analysis)
    return table if chart is None else Group(id="first", blocks=(table, chart), beside=True, weight=Weight.BRIEF)


def _build_variants(analysis: Analysis) -> Table:
    is_alone = suite_headline.is_alone(analysis)
    title = "Variant" if is_alone else "Variants"
    columns, caption = suite_columns.build_variant_columns(analysis), _describe_table(analysis)
    table = sections.build_variant_table(analysis, title, columns, "variant", *caption)
    return replace(table, emphasis=lambda variant: variant.is_baseline and not is_alone)


def _describe_table(analysis: Analysis) -> Iterator[str]:
    """What the figures are based on; nothing without figures."""
    if not any(map(suite_columns.is_measured, analysis.variants)):
        return
    if level := suite_cells.get_interval_level(analysis):
        yield f"{level} intervals over processes, not steps."
    yield from (*_describe_sampling(analysis), *_describe_sessions(analysis), *_describe_price(analysis))
    if suite_headline.is_alone(analysis):
        yield from sections.describe_utilization(analysis)
    else:
        yield "Memory changes are relative to the baseline."
        if any(variant.difference is not None for variant in analysis.variants):
            yield "Speed-ups are means over pairs of processes, so they may differ from the ratio of the step times."


def _build_found(analysis: Analysis) -> tuple[Text, ...]:
    """Results of searches for `auto` parameters."""
    return make_list("became", recomputation.describe_searches(analysis.recomputations), weight=Weight.BRIEF)


def _describe_sampling(analysis: Analysis) -> Iterator[str]:
    """Number of processes behind the times, and why sampling stopped."""
    sampling = analysis.sampling
    if sampling is None:
        yield "Each variant ran once, alone; times come from one process."
    elif sampling.rounds:
        ended = f": {sampling.end_reason}" if sampling.end_reason and len(analysis.sessions) < 2 else ""
        rounds = "1 round" if sampling.rounds == 1 else f"{sampling.rounds:,} rounds"
        yield f"Times come from {rounds} of processes in {format_seconds(sampling.seconds)}{ended}."


def _describe_sessions(analysis: Analysis) -> Iterator[str]:
    """Basis of comparisons between sessions."""
    if len(analysis.sessions) > 1:
        yield (
            f"Variants were measured in {len(analysis.sessions)} sessions. Speed-ups compare processes of the same "
            "session; other figures combine a variant's sessions."
        )


def _describe_price(analysis: Analysis) -> Iterator[str]:
    if analysis.price is not None:
        cost_units = dict.fromkeys(
            suite_cells.get_cost_unit(variant) for variant in analysis.variants if suite_columns.is_measured(variant)
        )
        units_text = " or ".join(cost_units) or "unit"
        yield f"Costs are per {units_text} at {analysis.price.label} for all hardware in the run."


def _build_not_measured(analysis: Analysis) -> tuple[Text, ...]:
    """Variants without figures, or with some missing, and why."""
    names: dict[tuple[str, str], list[str]] = {}  # by status and reason
    for variant in analysis.variants:
        alive = memory_sentences.describe_failure(variant.memory)[:2] if variant.memory else []
        if variant.reason or not suite_columns.is_measured(variant):
            reason = " ".join([format_sentence(variant.reason or "no reason recorded"), *alive])
            names.setdefault((variant.status.value, reason), []).append(variant.name)
    lines = [f"{', '.join(variants)} ({ended}): {reason}" for (ended, reason), variants in names.items()]
    return make_list("not-measured", lines, weight=Weight.BRIEF)


def _build_trade_off(analysis: Analysis) -> Chart | None:
    """Throughput against peak memory; None for a single variant, or where none has both."""
    placed = [variant for variant in analysis.variants if isinstance(variant.throughput, MedianEstimate)]
    points = [point for variant in placed if (point := _build_point(variant, analysis)) is not None]
    if suite_headline.is_alone(analysis) or len(points) < 2:
        return None
    chart = pareto.build_chart(points, suite_cells.get_throughput_unit(placed[0]))
    not_valid = any(not point.valid for point in points)
    apart = "Throughputs come from different sessions; the machine may have changed in between."
    caption = (
        "Up and to the left is better.",
        f"Dotted line, the Pareto front: {', '.join(analysis.pareto) or 'none'}.",
        *([apart] if len(analysis.sessions) > 1 else []),
        *(["Hollow points do not count: the loss differs, or a technique had no effect."] if not_valid else []),
        *(["Hover to see names where points crowd."] if len(pareto.place_names(points)) < len(points) else []),
    )
    return None if chart is None else replace(chart, title="Speed and memory", caption=" ".join(caption))


def _build_point(variant: Variant, analysis: Analysis) -> pareto.ParetoPoint | None:
    step, rate, peak = variant.step_time, variant.throughput, variant.peak_allocated
    if not isinstance(rate, MedianEstimate) or not isinstance(peak, Measurement):
        return None
    # The step time's interval, converted to throughput.
    slow, fast = (step.high, step.low) if isinstance(step, MedianEstimate) else (None, None)
    on_front = variant.name in analysis.pareto
    memory, time = suite_cells.make_peak_memory_cell(variant), suite_cells.make_step_time_cell(variant)
    return pareto.ParetoPoint(
        variant.name,
        peak.value,
        rate.value,
        assign_variant_styles(analysis)[variant.name],
        on_front,
        low=_scale_throughput(step, rate, slow),
        high=_scale_throughput(step, rate, fast),
        valid=is_sound(variant),
        told=(
            suite_cells.make_throughput_cell(variant).text,
            f"{memory.text} at the peak {memory.detail}",
            f"step {time.text}, {time.detail}",
            _describe_place(variant, on_front=on_front),
        ),
    )


def _describe_place(variant: Variant, *, on_front: bool) -> str:
    if not is_sound(variant):
        return f"does not count: {suite_headline.explain_unsound(variant)}"
    return "on the Pareto front" if on_front else "another variant is better in both"


def _scale_throughput(
    step: MedianEstimate | MissingEstimate, rate: MedianEstimate, seconds: float | None
) -> float | None:
    """Throughput at a step time of `format_seconds`."""
    return rate.value * step.value / seconds if isinstance(step, MedianEstimate) and seconds else None
