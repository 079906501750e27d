"""Rules about attached loops: data waits, outlier steps, drift."""

from collections.abc import Iterator

from perfkit.analysis.difference.difference import compare_traces
from perfkit.analysis.model.finding import Finding, GainRange
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.suite.findings.suite_view import SuiteView, get_step_s
from perfkit.analysis.trace.findings.data_wait import find_loop_data_wait
from perfkit.analysis.trace.findings.multi_trace import find_step_change
from perfkit.analysis.trace.findings.remedies import LOAD_SOONER, choose_remedy
from perfkit.analysis.trace.findings.trace_thresholds import COMMON, NOTABLE
from perfkit.core.record.trace_marks import PHASES
from perfkit.core.units import format_percent, format_seconds
from perfkit.trace.frameworks import TORCH

# Times the step time of the first capture: the least slowdown that is reported.
_SLOWER = 1.05
# The least share of padding that is reported: batches of similar lengths have less.
_PADDED = 0.2
# The phase of a traced step whose work does not depend on the batch.
_UPDATES = PHASES[-1]


def find_untraced_data_wait(suite: SuiteView) -> Iterator[Finding]:
    """A loop that waits for its data and was not traced."""
    for variant in suite.looked_into:
        traced = any(not trace.missing_device_reason for trace in suite.get_traces(variant))
        clean = get_step_s(variant)
        if variant.loop is not None and clean is not None and not traced:
            finding = find_loop_data_wait(variant.loop, clean, variant.name, None)
            if finding is not None:
                yield finding


def find_outlier_steps(suite: SuiteView) -> Iterator[Finding]:
    """Single steps that take much longer than the median."""
    for variant in suite.loops:
        outlying = None if variant.loop is None else variant.loop.outliers
        clean = get_step_s(variant)
        if outlying is None or clean is None or outlying.excess_s < NOTABLE * clean:
            continue
        often = f", one in every {outlying.period:,}" if outlying.period is not None else ""
        steps = "1 outlier step" if outlying.count == 1 else f"{outlying.count:,} outlier steps"
        shortest, longest = f"{outlying.shortest_ratio:.1f}", f"{outlying.longest_ratio:.1f}"
        span = f"{longest}x" if shortest == longest else f"{shortest}x to {longest}x"
        action = (
            "Look at what the loop does in these steps: logging that reads from the device, a checkpoint, an "
            "evaluation, garbage collection or recompilation for a new shape."
        )
        evidence = f"{span} the median of {outlying.steps:,} timed steps{often}"
        evidence += f"; mean step {format_seconds(clean + outlying.excess_s)}, median {format_seconds(clean)}"
        if outlying.data_share is not None:
            part = format_percent(outlying.data_share, 0) if outlying.data_share >= 0.005 else "none"
            evidence += f"; {part} of the excess is waiting for data"
            action = choose_remedy(LOAD_SOONER, TORCH, "", trains=True) if outlying.data_share > 0.5 else action
        yield Finding(
            id="steps.outliers",
            severity="gain",
            title=steps,
            variant=variant.name,
            evidence=evidence,
            action=action,
            gain_s=min(outlying.excess_s, clean),  # a mean, of steps of which the median is known
            details=("time beyond the median, averaged over all timed steps",),
            figures={
                "steps": outlying.count,
                "shortest": outlying.shortest_ratio,
                "longest": outlying.longest_ratio,
                "excess_s": outlying.excess_s,
            },
        )


def find_garbage_collection(suite: SuiteView) -> Iterator[Finding]:
    """A loop in whose timed steps Python collects garbage."""
    for variant in suite.looked_into:
        took_s = None if variant.loop is None else variant.loop.collection_mean_s
        step_s = get_step_s(variant)
        if took_s is None or step_s is None or took_s < COMMON * step_s:
            continue
        yield Finding(
            id="loop.garbage_collection",
            severity="gain",
            title=f"Garbage collection takes {format_seconds(took_s)} per step",
            variant=variant.name,
            evidence=f"mean of all timed steps, whose median is {format_seconds(step_s)}",
            action="Remove gc.collect() from the step, call gc.freeze() before the loop, and make fewer objects in it.",
            gain_s=min(took_s, step_s),  # a mean, of steps of which the median is known
            figures={"time_s": took_s},
        )


def find_padding(suite: SuiteView) -> Iterator[Finding]:
    """Positions that are computed and train nothing: of named batches, else of the model's first calls."""
    for variant in suite.loops:
        loop, clean = variant.loop, get_step_s(variant)
        share = None if loop is None else choose_padded_share(loop)
        if loop is None or clean is None or share is None or not _PADDED <= share < 1:
            continue
        updates = _compute_update_share(variant)
        busy_s = max(0.0, clean - (loop.data_wait_s or 0.0)) * (1 - updates)
        speedup = 1 / (1 - share)
        evidence, figures = _describe_padding(loop, share)
        yield Finding(
            id="data.padding",
            severity="gain",
            title=f"{format_percent(share, 0)} of the tokens are padding",
            variant=variant.name,
            evidence=evidence,
            action="Pack sequences into rows (cu_seqlens or position_ids), or bucket them by length: up to "
            f"{speedup:.1f} times the tokens per second where time grows with positions.",
            gain_s=share * busy_s,
            # Attention takes time by the square of the length.
            gains=(GainRange(unit="s", low=0.0, high=(1 - (1 - share) ** 2) * busy_s, basis="bound"),),
            details=(
                "assumes that time without waits for data and updates is as the number of positions; at most as its "
                "square",
            ),
            figures={"share": share, **figures, "throughput_ratio": speedup},
        )


def _compute_update_share(variant: Variant) -> float:
    """The share of the optimizer in the traced work of a step, which padding does not change; 0 without a trace."""
    phases = () if variant.traced_step is None else variant.traced_step.phases
    whole = sum(row.seconds for row in phases)
    return sum(row.seconds for row in phases if row.name == _UPDATES) / whole if whole else 0.0


def choose_padded_share(loop: LoopAnalysis) -> float | None:
    """The share of padding: of all batches that name their tokens, else of the model's first calls."""
    share = None if loop.tokens is None else loop.tokens.padding_share
    return loop.padded_share if share is None else share


def _describe_padding(loop: LoopAnalysis, share: float) -> tuple[str, dict[str, float]]:
    tokens = loop.tokens
    if tokens is None or tokens.padding is None:
        return f"{format_percent(share)} of the tokens of the model's first calls", {}
    labeled = f"; {tokens.labeled:,.0f} have a label" if tokens.labeled is not None else ""
    evidence = f"{tokens.padding:,.0f} of {tokens.computed:,.0f} positions of a step are masked{labeled}"
    return evidence, {"positions": tokens.computed, "padding": tokens.padding}


def find_excluded_steps(suite: SuiteView) -> Iterator[Finding]:
    """Steps that include an evaluation, which are excluded."""
    for variant in suite.loops:
        loop, clean = variant.loop, get_step_s(variant)
        if loop is not None and loop.excluded_steps_s:
            count, longest = len(loop.excluded_steps_s), max(loop.excluded_steps_s)
            against = "" if clean is None else f", a step without evaluation {format_seconds(clean)}"
            yield Finding(
                id="steps.evaluation",
                severity="note",
                title=f"{count:,} evaluation step{'' if count == 1 else 's'} excluded from step time",
                variant=variant.name,
                evidence=f"{'it' if count == 1 else 'the longest'} took {format_seconds(longest)}{against}",
                action="Evaluate less often or on fewer batches if it takes much of the run.",
                figures={"steps": count, "longest_s": longest},
            )


def find_drift(suite: SuiteView) -> Iterator[Finding]:
    """A continuously watched loop whose steps took longer at its end."""
    for variant in suite.looked_into:
        watched = None if variant.loop is None else variant.loop.live_log
        if watched is None or watched.first_s <= 0 or watched.last_s < _SLOWER * watched.first_s:
            continue
        more = f" and {len(watched.drifts) - 2:,} more" if len(watched.drifts) > 2 else ""
        drifts = f"; {'; '.join(watched.drifts[:2])}{more}" if watched.drifts else ""
        yield Finding(
            id="steps.drift",
            severity="warning",
            title=f"Steps slowed down {watched.last_s / watched.first_s:.2f}x during the run",
            variant=variant.name,
            evidence=f"from {format_seconds(watched.first_s)} to {format_seconds(watched.last_s)} over "
            f"{watched.steps:,} steps{drifts}",
            action='Trace it with --trace-on regression or trace_on=("regression",): other figures cover the start of '
            "the run.",
            figures={"first_s": watched.first_s, "last_s": watched.last_s, "steps": watched.steps},
        )


def find_slower_capture(suite: SuiteView) -> Iterator[Finding]:
    """A triggered capture that is slower than the first."""
    for variant in suite.loops:
        base = suite.get_baseline(variant)
        ours, theirs = get_step_s(variant), None if base is None else get_step_s(base)
        if base is None or ours is None or theirs is None or ours < _SLOWER * theirs:
            continue
        yield Finding(
            id="steps.slower_capture",
            severity="warning",
            title=f"{variant.name}: steps {ours / theirs:.2f}x as long as {base.name}",
            variant=variant.name,
            evidence=f"median step {format_seconds(ours)} vs {format_seconds(theirs)}, one process each"
            + (f"; triggered: {variant.loop.trigger}" if variant.loop and variant.loop.trigger else "")
            + _describe_changed_ops(suite, variant, base),
            action="Compare the data waits, ops, memory and clocks of both with perfkit compare.",
            figures={"step_s": ours, "first_step_s": theirs},
        )


def _describe_changed_ops(suite: SuiteView, variant: Variant, base: Variant) -> str:
    """The ops that grew, where both captures were traced."""
    after, before = suite.get_traces(variant), suite.get_traces(base)
    if not after or not before:
        return ""
    return "".join(f"; traced, {finding.evidence}" for finding in find_step_change(compare_traces(after[0], before[0])))
