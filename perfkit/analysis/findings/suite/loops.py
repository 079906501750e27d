"""Rules about loops that perfkit was attached to: what they wait for, what disturbs them, how they change."""

from collections.abc import Iterator

from perfkit.analysis.compare.difference import compare_traces
from perfkit.analysis.findings.suite.suite_view import SuiteView, get_step_s
from perfkit.analysis.findings.trace.data import LOAD_SOONER, find_loop_data_wait
from perfkit.analysis.findings.trace.multi_trace import find_step_change
from perfkit.analysis.findings.trace.thresholds import NOTABLE
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import Variant
from perfkit.units import format_percent, format_seconds

# A capture that was triggered is slower than the loop began from here on.
_SLOWER = 1.05


def find_untraced_data_wait(suite: SuiteView) -> Iterator[Finding]:
    """A loop that waits for its data, of whose work no trace tells."""
    for variant in suite.looked_into:
        seen = any(not trace.unseen_device for trace in suite.get_traces(variant))
        clean = get_step_s(variant)
        if variant.loop is not None and clean is not None and not seen:
            finding = find_loop_data_wait(variant.loop, clean, variant.name, None)
            if finding is not None:
                yield finding


def find_outlier_steps(suite: SuiteView) -> Iterator[Finding]:
    """Single steps that take much longer than the others."""
    for variant in suite.loops:
        outlying = None if variant.loop is None else variant.loop.outliers
        clean = get_step_s(variant)
        if outlying is None or clean is None or outlying.excess_s < NOTABLE * clean:
            continue
        often = f", one in every {outlying.every:,}" if outlying.every is not None else ""
        steps = "1 step takes" if outlying.count == 1 else f"{outlying.count:,} steps take"
        shortest, longest = f"{outlying.shortest:.1f}", f"{outlying.longest:.1f}"
        span = f"{longest} times" if shortest == longest else f"{shortest} to {longest} times"
        action = (
            "Look at what the loop does then: logging that reads a value from the device, a checkpoint, an evaluation, "
            "garbage collection, a shape not seen before (which may be compiled for)."
        )
        evidence = f"{span} the median{often}, of {outlying.steps:,} timed steps"
        evidence += (
            f"; the mean step takes {format_seconds(clean + outlying.excess_s)}, the median {format_seconds(clean)}"
        )
        if outlying.data_share is not None:
            part = format_percent(outlying.data_share, 0) if outlying.data_share >= 0.005 else "none"
            evidence += f"; {part} of what they take more is waiting for data"
            action = LOAD_SOONER if outlying.data_share > 0.5 else action
        yield Finding(
            id="steps.outliers",
            severity="gain",
            title=f"{steps} much longer than the others",
            variant=variant.name,
            evidence=evidence,
            action=action,
            gain_s=outlying.excess_s,
            details=("what they cost beyond the median, spread over all timed steps",),
            figures={
                "steps": outlying.count,
                "shortest": outlying.shortest,
                "longest": outlying.longest,
                "excess_s": outlying.excess_s,
            },
        )


def find_excluded_steps(suite: SuiteView) -> Iterator[Finding]:
    """Steps with an evaluation in them, which are no samples."""
    for variant in suite.loops:
        loop, clean = variant.loop, get_step_s(variant)
        if loop is not None and loop.left_out_s:
            count, longest = len(loop.left_out_s), max(loop.left_out_s)
            against = "" if clean is None else f", a step without takes {format_seconds(clean)}"
            yield Finding(
                id="steps.evaluation",
                severity="note",
                title=f"{count:,} step{'' if count == 1 else 's'} with an evaluation "
                f"{'is' if count == 1 else 'are'} left out of the step time",
                variant=variant.name,
                evidence=f"{'it' if count == 1 else 'the longest'} took {format_seconds(longest)}{against}",
                action="Evaluate more rarely or on fewer batches if that is much of the whole run.",
                figures={"steps": count, "longest_s": longest},
            )


def find_drift(suite: SuiteView) -> Iterator[Finding]:
    """A loop that was watched all the time, and whose steps took longer at its end."""
    for variant in suite.looked_into:
        seen = None if variant.loop is None else variant.loop.watched
        if seen is None or seen.first_s <= 0 or seen.last_s < _SLOWER * seen.first_s:
            continue
        more = f" and {len(seen.drifts) - 2:,} more" if len(seen.drifts) > 2 else ""
        told = f"; {'; '.join(seen.drifts[:2])}{more}" if seen.drifts else ""
        yield Finding(
            id="steps.drift",
            severity="warning",
            title=f"At the end steps took {seen.last_s / seen.first_s:.2f} times as long as at the beginning",
            variant=variant.name,
            evidence=f"{format_seconds(seen.first_s)} at first, {format_seconds(seen.last_s)} at last, of {seen.steps:,} steps{told}",
            action="The other figures are of the beginning. Let a trace be made when it happens: --trace-on regression "
            'or trace_on=("regression",).',
            figures={"first_s": seen.first_s, "last_s": seen.last_s, "steps": seen.steps},
        )


def find_slower_capture(suite: SuiteView) -> Iterator[Finding]:
    """A capture that was triggered later, against the loop as it began."""
    for variant in suite.loops:
        base = suite.get_baseline(variant)
        ours, theirs = get_step_s(variant), None if base is None else get_step_s(base)
        if base is None or ours is None or theirs is None or ours < _SLOWER * theirs:
            continue
        yield Finding(
            id="steps.slower_capture",
            severity="warning",
            title=f"{variant.name}: steps take {ours / theirs:.2f} times as long as in {base.name}",
            variant=variant.name,
            evidence=f"{format_seconds(ours)} against {format_seconds(theirs)}, medians of steps of one process each"
            + (f"; triggered: {variant.loop.trigger}" if variant.loop and variant.loop.trigger else "")
            + _describe_changed_ops(suite, variant, base),
            action="See what changed: waiting for data, ops and memory of the two, and the device's clocks.",
            figures={"step_s": ours, "first_step_s": theirs},
        )


def _describe_changed_ops(suite: SuiteView, variant: Variant, base: Variant) -> str:
    """Where the two were traced, the ops that grew."""
    after, before = suite.get_traces(variant), suite.get_traces(base)
    if not after or not before:
        return ""
    return "".join(f"; traced, {finding.evidence}" for finding in find_step_change(compare_traces(after[0], before[0])))
