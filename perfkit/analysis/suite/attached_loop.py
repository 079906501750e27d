"""Figures of a loop that perfkit was attached to, beyond those that every run has."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from perfkit.analysis.model.loop import (
    CountPerStep,
    LiveSummary,
    LoopAnalysis,
    LoopRank,
    Slowdown,
    StepOutliers,
    TokenUse,
)
from perfkit.analysis.stacks.hot_lines import summarize_loop_stacks
from perfkit.analysis.suite.runs import get_step_times
from perfkit.core.record.attached_loop import AttachedLoop
from perfkit.core.record.rank_record import RankRecord
from perfkit.store.live import LiveEvent, LiveLine, LiveWindow, read_live
from perfkit.store.stacks import SampledStacks

# A step of more than this many medians is an outlier.
_FAR = 2.0

# The part of a log that is its beginning or its end.
_END = 0.1


def build_loop(
    records: Sequence[RankRecord], log: Path | None = None, stacks: Iterable[SampledStacks] = ()
) -> LoopAnalysis | None:
    """Build the loop of a run's records; None for perfkit's own loop. `log` is the log of a continuously watched loop,
    `stacks` its samples."""
    watched = [(record, record.attached_loop) for record in records if record.attached_loop is not None]
    if not watched:
        return None
    first, loop = watched[0]
    ranks = tuple(_summarize_rank(record, attached) for record, attached in watched)
    waiting = max(ranks, key=lambda rank: rank.data_wait_share or 0.0)
    slowest = max(watched, key=lambda pair: _compute_median_step(pair[0]))
    outliers = _find_outliers(slowest[0])
    counted = [record.workload for record, _ in watched if record.workload is not None]
    fullest = max((each for _, each in watched), key=_get_peak_bytes)
    return LoopAnalysis(
        step_marker=loop.step_marker,
        steps_seen=loop.steps_seen,
        first_timed=loop.first_timed,
        steps_timed=len(first.samples.wall_s),
        optimizers=loop.optimizers,
        models=loop.models,
        optimizer_steps=_summarize_counts(loop.optimizer_steps),
        forwards=_summarize_counts(loop.forwards),
        backwards=_summarize_counts(loop.backwards),
        microbatches=_infer_microbatches(loop),
        data_wait_s=waiting.data_wait_s,
        data_wait_mean_s=waiting.data_wait_mean_s,
        data_wait_share=waiting.data_wait_share,
        excluded_steps_s=loop.excluded_steps_s,
        slowdowns=_compute_slowdowns(watched),
        outliers=outliers,
        data_waits_s=_get_waits(*slowest),
        units_per_step=sum(facts.units_per_batch for facts in counted) if len(counted) == len(watched) else 0.0,
        unit=counted[0].unit if counted else "",
        live_log=None if log is None else summarize_live_log(read_live(log)),
        stacks=summarize_loop_stacks(stacks),
        units_source=loop.units_source,
        trigger=loop.trigger,
        padded_share=loop.padded_share,
        collection_mean_s=max((fmean(each.collection_s) for _, each in watched if each.collection_s), default=None),
        ranks=ranks,
        peak_rises=fullest.peak_rises,
        peak_source=fullest.peak_source,
        tokens=summarize_tokens([attached for _, attached in watched]),
        wall_time=loop.wall_time,
        goodput=None if loop.wall_time is None else loop.wall_time.share,
    )


def _get_peak_bytes(loop: AttachedLoop) -> int:
    return max((rise.bytes for rise in loop.peak_rises), default=0)


def summarize_tokens(loops: Sequence[AttachedLoop]) -> TokenUse | None:
    """The tokens of a step of all ranks; None where a rank does not know its own.

    Those of the mean batch times the batches of the median step: a loader that looks ahead fetches the batch of a step
    in the one before, which may be excluded.
    """
    counted = [
        (loop.tokens, median(loop.fetches) / loop.tokens.batches)
        for loop in loops
        if loop.tokens is not None and any(loop.fetches)
    ]
    if not counted or len(counted) < len(loops):
        return None
    padding = [tokens.padding * share for tokens, share in counted if tokens.padding is not None]
    labeled = [tokens.labeled * share for tokens, share in counted if tokens.labeled is not None]
    useful = [tokens.useful * share for tokens, share in counted if tokens.useful is not None]
    return TokenUse(
        computed=sum(tokens.computed * share for tokens, share in counted),
        padding=sum(padding) if len(padding) == len(counted) else None,
        labeled=sum(labeled) if len(labeled) == len(counted) else None,
        useful=sum(useful) if len(useful) == len(counted) else None,
    )


def summarize_live_log(lines: Iterable[LiveLine]) -> LiveSummary | None:
    """Summarize a live log; None without a finished step."""
    every = list(lines)
    windows = [line for line in every if isinstance(line, LiveWindow)]
    steps = sum(window.steps for window in windows)
    if not steps:
        return None
    return LiveSummary(
        steps=steps,
        first_s=_compute_typical_step(windows, steps * _END),
        last_s=_compute_typical_step(windows[::-1], steps * _END),
        drifts=tuple(line.text for line in every if isinstance(line, LiveEvent) and line.kind == "drift"),
    )


def _compute_typical_step(windows: Sequence[LiveWindow], steps: float) -> float:
    """The median over the first `steps` steps of their window medians."""
    medians: list[float] = []
    for window in windows:
        if len(medians) >= steps:
            break
        medians += [window.step_s] * window.steps
    return median(medians)


def _compute_median_step(record: RankRecord) -> float:
    steps = get_step_times(record.samples)
    return median(steps) if steps else 0.0


def _summarize_rank(record: RankRecord, attached: AttachedLoop) -> LoopRank:
    wall, waits = record.samples.wall_s, attached.data_wait_s
    # Use the mean: with prefetching workers, some steps wait long and the others not at all.
    mean = fmean(waits) if waits else None
    return LoopRank(
        rank=record.rank,
        step_s=_compute_median_step(record) or None,
        data_wait_s=median(waits) if waits else None,
        data_wait_mean_s=mean,
        data_wait_share=mean / fmean(wall) if mean is not None and any(wall) else None,
    )


def _summarize_counts(counts: Sequence[int]) -> CountPerStep | None:
    return CountPerStep(median=median(counts), min=min(counts), max=max(counts)) if counts else None


def _infer_microbatches(loop: AttachedLoop) -> float | None:
    """The number of backward passes per optimizer step; None where they may not be microbatches.

    With several optimizers, a pass may be for another one (as in a GAN), so that only a single pass per step is clear.
    Several passes are microbatches if each had its own batch, or a forward pass on another batch: optimizers may
    evaluate one batch several times, and penalties have backward passes of their own.
    """
    backwards, steps = sum(loop.backwards), sum(loop.optimizer_steps)
    if not backwards or not steps:
        return None
    if len(loop.optimizers) > 1:
        return 1.0 if max(loop.backwards) == 1 else None
    batches = sum(loop.forwards) - sum(loop.repeated_forwards)
    if backwards > steps and backwards > batches and backwards != sum(loop.fetches):
        return None
    return backwards / steps


def _compute_slowdowns(watched: Sequence[tuple[RankRecord, AttachedLoop]]) -> tuple[Slowdown, ...]:
    """For each instrument, the slowest rank's median step under it, over that of the timed steps."""
    timed = max((median(record.samples.wall_s) for record, _ in watched if record.samples.wall_s), default=0.0)
    if timed <= 0:
        return ()
    slowest: dict[str, tuple[float, int]] = {}
    for _, attached in watched:
        for instrument, steps in attached.instrumented_s.items():
            if steps:
                slowest[instrument] = max(slowest.get(instrument, (0.0, 0)), (median(steps), len(steps)))
    paused = [attached.pauses_s for _, attached in watched]
    grown = [attached.peak_bytes for _, attached in watched]
    return tuple(
        Slowdown(
            instrument=instrument,
            seconds=took,
            ratio=took / timed,
            steps=count,
            pause_s=max((pauses[instrument] for pauses in paused if instrument in pauses), default=None),
            peak_bytes=max((peaks[instrument] for peaks in grown if instrument in peaks), default=None),
        )
        for instrument, (took, count) in slowest.items()
    )


def _get_waits(record: RankRecord, attached: AttachedLoop) -> tuple[float, ...]:
    """The data wait of each timed step; empty unless known for all."""
    waits = attached.data_wait_s
    return waits if len(waits) == len(get_step_times(record.samples)) else ()


def _find_outliers(record: RankRecord) -> StepOutliers | None:
    steps = get_step_times(record.samples)
    if not steps:
        return None
    usual = median(steps)
    places = [index for index, step in enumerate(steps) if step > _FAR * usual]
    if not places:
        return None
    excess = sum(steps[place] - usual for place in places)
    return StepOutliers(
        count=len(places),
        steps=len(steps),
        shortest_ratio=min(steps[place] for place in places) / usual,
        longest_ratio=max(steps[place] for place in places) / usual,
        excess_s=excess / len(steps),
        period=_find_interval(places, len(steps)),
        data_share=_compute_data_share(record, places, excess),
    )


def _find_interval(places: Sequence[int], steps: int) -> int | None:
    """The steps from each to the next where that is always the same, from the first to the last of all steps."""
    gaps = {after - before for before, after in pairwise(places)}
    if len(places) < 3 or len(gaps) > 1:
        return None
    (gap,) = gaps
    return gap if places[0] < gap and steps - places[-1] <= gap else None


def _compute_data_share(record: RankRecord, places: Sequence[int], excess: float) -> float | None:
    """The part of the outliers' excess that was waiting for data beyond the usual."""
    waits = () if record.attached_loop is None else _get_waits(record, record.attached_loop)
    if not waits:
        return None
    usual = median(waits)
    return min(1.0, sum(max(0.0, waits[place] - usual) for place in places) / excess)
