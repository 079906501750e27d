"""The report on a suite: comparison of variants, and the time and memory of each."""

from collections.abc import Iterator
from dataclasses import replace

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.suite.compile_cost import describe_break_even
from perfkit.core.record import Measurement
from perfkit.core.units import format_seconds
from perfkit_reports.charts import pareto
from perfkit_reports.document.blocks import Section, Table, Text, Tile
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects import pipelines, recomputation
from perfkit_reports.subjects.memory import memory_sentences
from perfkit_reports.subjects.suite import (
    communication,
    experts,
    losses,
    sections,
    sizes,
    suite_cells,
    suite_columns,
    suite_headline,
)
from perfkit_reports.subjects.suite.chart_styles import assign_variant_styles
from perfkit_reports.subjects.suite.predictions import build_prediction_sections
from perfkit_reports.subjects.suite.scaling import build_scaling_sections
from perfkit_reports.subjects.tables import make_list
from perfkit_reports.wording import format_sentence

_LANES = (
    "Dots are steps, lanes are processes, bars are each process's median.",
    "Verdicts compare processes, not single steps.",
)
_UNTRACED = "No variant was traced."


def build_document(analysis: Analysis) -> Document:
    """The document of a suite of compared variants; `loop_document` draws those of attached loops."""
    count = Tile("Variants", Cell(f"{len(analysis.variants):,}", detail=suite_headline.count_by_status(analysis)))
    return sections.build_suite_document(
        analysis,
        headline=suite_headline.build_headline(analysis),
        lead=suite_headline.list_remarks(analysis),
        tiles=[*_build_best_tiles(analysis), *sections.build_largest_gain_tiles(analysis), count],
        summary=[
            _build_variants(analysis),
            *sections.build_peaks(analysis),
            *_build_found(analysis),
            *_build_not_measured(analysis),
            *_build_compiled(analysis),
        ],
        sections=[
            sections.build_findings_section(analysis, "Variant"),
            *_build_trade_off(analysis),
            *build_scaling_sections(analysis),
            *build_prediction_sections(analysis),
            *losses.build_sections(analysis),
            *experts.build_sections(analysis),
            *sizes.build_sections(analysis),
            *recomputation.build_sections(analysis.recomputations),
            *communication.build_sections(analysis),
            *pipelines.build_sections(
                (each.name, each.pipeline) for each in analysis.variants if each.pipeline is not None
            ),
            *sections.build_traced_sections(analysis, "variant", "the baseline's step to a variant's", _UNTRACED),
            sections.build_samples_section(analysis, *_LANES),
        ],
    )


def _build_best_tiles(analysis: Analysis) -> Iterator[Tile]:
    best, least = suite_headline.find_fastest(analysis), suite_headline.find_leanest(analysis)
    if best is not None:
        speed = suite_cells.make_speed_up_cell(best)
        yield Tile("Fastest", Cell(speed.text, detail=f"{best.name}, {speed.detail}"))
    if least is not None:
        memory = suite_cells.make_peak_memory_cell(least)
        yield Tile("Least memory", Cell(memory.detail, detail=f"{least.name}, {memory.text} at the peak"))


def _build_variants(analysis: Analysis) -> Table:
    is_alone = suite_headline.is_alone(analysis)
    level = suite_cells.get_interval_level(analysis)
    caption = [f"{level} intervals over processes, not steps."] if level else []
    caption += [*_describe_sampling(analysis), *_describe_sessions(analysis), *_describe_price(analysis)]
    caption += [] if is_alone else ["Memory changes are relative to the baseline."]
    title = "Variant" if is_alone else "Variants"
    table = sections.build_variant_table(
        analysis, title, suite_columns.build_variant_columns(analysis), "variant", *caption
    )
    return replace(table, emphasis=lambda variant: variant.is_baseline and not is_alone)


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


def _build_compiled(analysis: Analysis) -> tuple[Text, ...]:
    """Cold and warm compile times with their break-even steps."""
    lines = []
    for variant in analysis.variants:
        cold = variant.compile
        if cold is None or cold.seconds is None:
            continue
        cache = cold.cache.partition(" (")[0]
        parts = [
            (
                f"compiled in {format_seconds(cold.seconds)} ({cache} cache), "
                f"{describe_break_even(cold, variant.difference)}"
            )
        ]
        if cold.warm is not None:
            parts.append(
                f"{format_seconds(cold.warm.seconds)} with warm caches, "
                f"{describe_break_even(cold.warm, variant.difference)}"
            )
        lines.append(f"{variant.name}: {'; '.join(parts)}.")
    return make_list("compiled", lines, weight=Weight.BRIEF)


def _build_trade_off(analysis: Analysis) -> Iterator[Section]:
    """Throughput against peak memory; nothing for a single variant."""
    if suite_headline.is_alone(analysis):
        return
    placed = [variant for variant in analysis.variants if isinstance(variant.throughput, MedianEstimate)]
    chart = pareto.build_chart(
        [point for variant in placed if (point := _build_point(variant, analysis)) is not None],
        suite_cells.get_throughput_unit(placed[0]) if placed else "",
    )
    title = "Speed and memory"
    if chart is None:
        yield sections.build_empty_section("tradeoff", title, "No variant has both throughput and peak memory.")
        return
    front = ", ".join(analysis.pareto) or "none"
    apart = "Throughputs come from different sessions; the machine may have changed in between."
    intro = (
        "Up and to the left is better.",
        f"The dotted line is the Pareto front: {front}.",
        *([apart] if len(analysis.sessions) > 1 else []),
        *(["Hover to see names where points crowd."] if len(placed) > pareto.ALL_NAMED else []),
    )
    yield Section("tradeoff", title, (replace(chart, weight=Weight.BRIEF),), nav="Trade-off", intro=intro)


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
        told=(
            suite_cells.make_throughput_cell(variant).text,
            f"{memory.text} at the peak {memory.detail}",
            f"step {time.text}, {time.detail}",
            "on the Pareto front" if on_front else "another variant is better in both",
        ),
    )


def _scale_throughput(
    step: MedianEstimate | MissingEstimate, rate: MedianEstimate, seconds: float | None
) -> float | None:
    """Throughput at a step time of `format_seconds`."""
    return rate.value * step.value / seconds if isinstance(step, MedianEstimate) and seconds else None
