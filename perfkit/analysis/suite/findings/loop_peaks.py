"""Rules about what raised the peak memory of an attached loop."""

from collections.abc import Iterator
from itertools import pairwise

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.core.record.attached_loop import PeakRise
from perfkit.core.units import format_bytes

# The least ratio to the peak before that is reported.
LEAST_RATIO = 1.05
# Rises in so many readings of the warm-up, at the same shapes, are growth from step to step.
GROWING_READINGS = 3

_SOURCES = {"allocator": "the allocator's peak", "process": "the process's peak resident set"}


def find_loop_peaks(suite: SuiteView) -> Iterator[Finding]:
    """An evaluation, a longer batch, growth, or steps after the recordings that raised the peak."""
    for variant in suite.loops:
        if variant.loop is None or not variant.loop.peak_rises:
            continue
        rises, source = variant.loop.peak_rises, _SOURCES.get(variant.loop.peak_source, "")
        yield from _find_evaluation(rises, source, variant.name)
        yield from _find_longest_batch(rises, source, variant.name)
        yield from _find_growth(rises, source, variant.name)
        yield from _find_unwatched(rises, source, variant.name)


def _find_evaluation(rises: tuple[PeakRise, ...], source: str, owner: str) -> Iterator[Finding]:
    place = max((place for place, rise in enumerate(rises) if rise.kind == "evaluation"), default=0)
    before = max((rise.bytes for rise in rises[:place] if rise.kind != "evaluation"), default=0)
    rise = rises[place]
    if rise.kind != "evaluation" or not before or rise.bytes < LEAST_RATIO * before:
        return
    ratio = rise.bytes / before
    yield Finding(
        id="memory.evaluation_peak",
        severity="warning",
        title=f"Evaluation takes {ratio:.2g} times the memory of training",
        variant=owner,
        evidence=f"{source} was {format_bytes(before)} before, {format_bytes(rise.bytes)} after step {rise.step}, with "
        f"{rise.evaluations:,} evaluation forward passes",
        action="Evaluate with smaller batches under torch.no_grad(), and keep metrics or CPU copies instead of logits "
        "(Trainer: eval_accumulation_steps, preprocess_logits_for_metrics).",
        figures={"ratio": ratio, "step": rise.step, "bytes": rise.bytes, "evaluations": rise.evaluations},
    )


def _find_longest_batch(rises: tuple[PeakRise, ...], source: str, owner: str) -> Iterator[Finding]:
    longer = [
        (before.bytes, rise)
        for before, rise in pairwise(rises)
        if rise.kind == "step" and rise.has_new_shape and rise.bytes >= LEAST_RATIO * before.bytes
    ]
    if not longer:
        return
    before, rise = longer[-1]
    ratio, shape = rise.bytes / before, " x ".join(f"{size:,}" for size in rise.input_shape)
    yield Finding(
        id="memory.longest_batch",
        severity="warning",
        title=f"Step {rise.step} raised the peak: input {shape}",
        variant=owner,
        evidence=f"{source} was {format_bytes(before)} before, {format_bytes(rise.bytes)} after it, {ratio:.2g} times",
        action="Limit the tokens of a batch: truncate, bucket by length, or pack; perfkit plan --seq-lengths says how "
        "often a longer batch comes.",
        figures={"ratio": ratio, "step": rise.step, "bytes": rise.bytes},
    )


def _find_growth(rises: tuple[PeakRise, ...], source: str, owner: str) -> Iterator[Finding]:
    """Rises at shapes that an earlier step had, too: not of the first two steps, after which the optimizer state and
    the libraries' workspaces are there."""
    seen: set[tuple[int, ...]] = set()
    growing: list[PeakRise] = []
    for rise in rises:
        if rise.kind == "step" and rise.input_shape in seen:
            growing.append(rise)
        seen.add(rise.input_shape)
    if len(growing) < GROWING_READINGS or growing[-1].bytes < LEAST_RATIO * growing[0].bytes:
        return
    first, last = growing[0], growing[-1]
    per_step = (last.bytes - first.bytes) / max(1, last.step - first.step)
    yield Finding(
        id="memory.growing_peak",
        severity="warning",
        title=f"Peak memory grows by {format_bytes(per_step)} per step",
        variant=owner,
        evidence=f"{source} rose from {format_bytes(first.bytes)} at step {first.step} to {format_bytes(last.bytes)} "
        f"at step {last.step}, with inputs of the same shape",
        action="Look for tensors that outlive their step: losses summed without .item(), lists of outputs, hooks.",
        figures={"bytes_per_step": per_step, "step": last.step, "bytes": last.bytes},
    )


def _find_unwatched(rises: tuple[PeakRise, ...], source: str, owner: str) -> Iterator[Finding]:
    if len(rises) < 2 or rises[-1].kind != "unwatched" or rises[-1].bytes < LEAST_RATIO * rises[-2].bytes:
        return
    before, rise = rises[-2], rises[-1]
    ratio = rise.bytes / before.bytes
    yield Finding(
        id="memory.late_peak",
        severity="warning",
        title=f"Peak memory rose {ratio:.2g} times after the recorded steps",
        variant=owner,
        evidence=f"{source} was {format_bytes(before.bytes)} while recorded, {format_bytes(rise.bytes)} at the end; "
        f"the last watched step was {rise.step:,}",
        action="Watch all steps with --always-on: evaluations, checkpoints and longer batches come late.",
        figures={"ratio": ratio, "step": rise.step, "bytes": rise.bytes},
    )
