"""A suite as a document: which variant is worth having, and where the time and the memory of each go."""

from collections.abc import Iterator
from dataclasses import replace

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.suite.compile_cost import format_break_even
from perfkit.record import Measurement
from perfkit.units import seconds
from perfkit_reports.charts import pareto
from perfkit_reports.document.blocks import Section, Table, Text, Tile
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects import pipelines, recomputation
from perfkit_reports.subjects.loop.document import document as of_loop
from perfkit_reports.subjects.memory import story
from perfkit_reports.subjects.suite import cells, columns, communication, experts, headline, losses, sections, sizes
from perfkit_reports.subjects.suite.look import styles
from perfkit_reports.subjects.suite.predicted import predicted
from perfkit_reports.subjects.suite.scaling import scaling
from perfkit_reports.subjects.tables import listed
from perfkit_reports.wording import sentence

_LANES = (
    "One dot a step, one lane a process, one bar a process's median.",
    "Verdicts come from processes, not from single steps.",
)
_UNTRACED = "No variant was traced."


def document(analysis: Analysis) -> Document:
    """Of variants that were compared, or of a loop that perfkit was attached to."""
    attached = any(variant.loop is not None for variant in analysis.variants)
    return of_loop(analysis) if attached else _bench(analysis)


def _bench(analysis: Analysis) -> Document:
    count = Tile("Variants", Cell(f"{len(analysis.variants):,}", detail=headline.count_by_status(analysis)))
    return sections.assembled(
        analysis,
        headline=headline.headline(analysis),
        lead=headline.remarks(analysis),
        tiles=[*_best(analysis), *sections.largest_gain(analysis), count],
        summary=[_variants(analysis), *_found(analysis), *_not_measured(analysis), *_compiled(analysis)],
        sections=[
            sections.what_was_found(analysis, "Variant"),
            *_trade_off(analysis),
            *scaling(analysis),
            *predicted(analysis),
            *losses.losses(analysis),
            *experts.experts(analysis),
            *sizes.sizes(analysis),
            *recomputation.recomputation(analysis.recomputations),
            *communication.communication(analysis),
            *pipelines.pipelines((each.name, each.pipeline) for each in analysis.variants if each.pipeline is not None),
            *sections.instrumented(analysis, "variant", "the baseline's step to a variant's", _UNTRACED),
            sections.samples(analysis, *_LANES),
        ],
    )


def _best(analysis: Analysis) -> Iterator[Tile]:
    best, least = headline.fastest(analysis), headline.leanest(analysis)
    if best is not None:
        speed = cells.speed_up(best)
        yield Tile("Fastest", Cell(speed.text, detail=f"{best.name}, {speed.detail}"))
    if least is not None:
        memory = cells.peak_memory(least)
        yield Tile("Least memory", Cell(memory.detail, detail=f"{least.name}, {memory.text} at the peak"))


def _variants(analysis: Analysis) -> Table:
    alone = headline.is_alone(analysis)
    level = cells.interval_level(analysis)
    caption = [f"Intervals are at the {level} level, over processes, not over steps."] if level else []
    caption += [*_sampled(analysis), *_sessions(analysis), *_priced(analysis)]
    caption += [] if alone else ["Memory changes are against the baseline."]
    title = "The variant" if alone else "Variants against the baseline"
    made = sections.table(analysis, title, columns.variants(analysis), "variant", *caption)
    return replace(made, emphasis=lambda variant: variant.is_baseline and not alone)


def _found(analysis: Analysis) -> tuple[Text, ...]:
    """What variants became that left something open."""
    return listed("became", recomputation.said(analysis.recomputations), weight=Weight.BRIEF)


def _sampled(analysis: Analysis) -> Iterator[str]:
    """How many processes the times are from, and why not more."""
    sampling = analysis.sampling
    if sampling is None:
        yield "Each variant ran once: times are those of one process, alone on the machine."
    elif sampling.rounds:
        ended = f": {sampling.ended}" if sampling.ended and len(analysis.sessions) < 2 else ""
        rounds = "1 round" if sampling.rounds == 1 else f"{sampling.rounds:,} rounds"
        yield f"Times are from {rounds} of processes in {seconds(sampling.seconds)}{ended}."


def _sessions(analysis: Analysis) -> Iterator[str]:
    """What is not to be read out of variants that were measured at other times."""
    if len(analysis.sessions) > 1:
        yield (
            f"Variants were measured in {len(analysis.sessions)} sessions: speed-ups are of processes beside each "
            "other, all else is of the sessions that a variant was in."
        )


def _priced(analysis: Analysis) -> Iterator[str]:
    if analysis.price is not None:
        of = dict.fromkeys(cells.cost_unit(variant) for variant in analysis.variants if columns.is_measured(variant))
        yield f"Costs are of {' or '.join(of) or 'unit'} at {analysis.price.label}, the price of all that a run uses."


def _not_measured(analysis: Analysis) -> tuple[Text, ...]:
    """What stands in for the figures of variants that have none, or not all."""
    names: dict[tuple[str, str], list[str]] = {}  # of those that share a reason
    for variant in analysis.variants:
        alive = story.failure(variant.memory)[:2] if variant.memory else []
        if variant.reason or not columns.is_measured(variant):
            told = " ".join([sentence(variant.reason or "no reason was recorded"), *alive])
            names.setdefault((variant.status.value, told), []).append(variant.name)
    lines = [f"{', '.join(of)} ({ended}): {told}" for (ended, told), of in names.items()]
    return listed("not-measured", lines, weight=Weight.BRIEF)


def _compiled(analysis: Analysis) -> tuple[Text, ...]:
    """What compiling took, cold and warm, and after how many steps it has paid for itself."""
    lines = []
    for variant in analysis.variants:
        cold = variant.compile
        if cold is None or cold.seconds is None:
            continue
        cache = cold.cache.partition(" (")[0]
        told = [
            f"compiled in {seconds(cold.seconds)} (cache {cache}), pays {format_break_even(cold, variant.difference)}"
        ]
        if cold.warm is not None:
            told.append(
                f"with warm caches in {seconds(cold.warm.seconds)}, pays {format_break_even(cold.warm, variant.difference)}"
            )
        lines.append(f"{variant.name}: {'; '.join(told)}.")
    return listed("compiled", lines, weight=Weight.BRIEF)


def _trade_off(analysis: Analysis) -> Iterator[Section]:
    """Only where there are variants to choose from."""
    if headline.is_alone(analysis):
        return
    placed = [variant for variant in analysis.variants if isinstance(variant.throughput, MedianEstimate)]
    drawn = pareto.chart(
        [point for variant in placed if (point := _point(variant, analysis)) is not None],
        cells.throughput_unit(placed[0]) if placed else "",
    )
    title = "Speed and memory"
    if drawn is None:
        yield sections.empty("tradeoff", title, "No variant has both a throughput and a peak memory.")
        return
    front = ", ".join(analysis.pareto) or "none"
    apart = "Throughputs of other sessions are compared too: between sessions the machine may have changed."
    intro = (
        "Up and to the left is better.",
        f"The dotted line joins the variants that no other beats on both: {front}.",
        *([apart] if len(analysis.sessions) > 1 else []),
        *(["Where points crowd, names are told under the pointer."] if len(placed) > pareto.ALL_NAMED else []),
    )
    yield Section("tradeoff", title, (replace(drawn, weight=Weight.BRIEF),), nav="Trade-off", intro=intro)


def _point(variant: Variant, analysis: Analysis) -> pareto.Point | None:
    step, rate, peak = variant.step_time, variant.throughput, variant.peak_allocated
    if not isinstance(rate, MedianEstimate) or not isinstance(peak, Measurement):
        return None
    # The interval of the step time, carried over to throughput.
    slow, fast = (step.high, step.low) if isinstance(step, MedianEstimate) else (None, None)
    on_front = variant.name in analysis.pareto
    memory, time = cells.peak_memory(variant), cells.step_time(variant)
    return pareto.Point(
        variant.name,
        peak.value,
        rate.value,
        styles(analysis)[variant.name],
        on_front,
        low=_at(step, rate, slow),
        high=_at(step, rate, fast),
        told=(
            cells.throughput(variant).text,
            f"{memory.text} at the peak {memory.detail}",
            f"step {time.text}, {time.detail}",
            "on the Pareto front" if on_front else "another variant is better on both",
        ),
    )


def _at(step: MedianEstimate | MissingEstimate, rate: MedianEstimate, seconds: float | None) -> float | None:
    """The throughput if a step took `seconds`."""
    return rate.value * step.value / seconds if isinstance(step, MedianEstimate) and seconds else None
