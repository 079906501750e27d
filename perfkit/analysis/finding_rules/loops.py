"""Rules about loops that perfkit was attached to: what their traces say, what they wait for, what disturbs them."""

from collections.abc import Iterator

from msgspec.structs import replace

from perfkit.analysis.finding_rules.context import Context, step_s
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.loop import Loop
from perfkit.analysis.model.suite import Variant
from perfkit.analysis.suite.passes import Passes
from perfkit.analysis.trace.difference import difference
from perfkit.analysis.trace.findings import difference_findings, trace_findings
from perfkit.analysis.trace.findings.host import DATA_TITLE, LOAD_SOONER
from perfkit.analysis.trace.findings.limits import above_roof, lost_kernels, no_kernels
from perfkit.analysis.trace.findings.thresholds import COMMON, NOTABLE
from perfkit.analysis.trace.findings.view import CPU
from perfkit.units import percent, seconds

# What limits a trace that perfkit recorded itself; the other rules say how to record a better one.
_LIMITS = (no_kernels, lost_kernels, above_roof)

# A capture that was triggered is slower than the loop began from here on.
_SLOWER = 1.05


def traced(context: Context) -> Iterator[Finding]:
    """What the loop's own traces say, with gains as the same parts of a timed step, and what it waits for."""
    for variant in _first(context):
        passes = context.passes.get(variant.name, Passes())
        slow = {trace.label: trace.step_s for trace in passes.traces}
        alone = trace_findings(passes.traces, None, None, limits=_LIMITS)
        # That ranks wait for one is a part of their steps, the longest, and not of that one's.
        together = trace_findings((), passes.fleet, None)
        scaled = [
            *(_of_timed(finding, step_s(variant), slow[finding.variant]) for finding in alone),
            *(_of_timed(finding, step_s(variant), max(slow.values())) for finding in together),
        ]
        by_trace = next((finding for finding in scaled if finding.title == DATA_TITLE), None)
        yield from (finding for finding in scaled if finding is not by_trace)
        on_cpu = all(trace.device == CPU for trace in passes.traces)
        waiting = _waiting(variant, by_trace, None if on_cpu else _idle_s(by_trace))
        if waiting is not None:
            yield waiting


def outliers(context: Context) -> Iterator[Finding]:
    """Single steps that take much longer than the others."""
    for variant in context.loops:
        found = None if variant.loop is None else variant.loop.outliers
        clean = step_s(variant)
        if found is None or clean is None or found.excess_s < NOTABLE * clean:
            continue
        often = f", one in every {found.every:,}" if found.every is not None else ""
        steps = "1 step takes" if found.count == 1 else f"{found.count:,} steps take"
        span = (
            f"{found.longest:.1f} times" if found.count == 1 else f"{found.shortest:.1f} to {found.longest:.1f} times"
        )
        action = (
            "Look at what the loop does then: logging that reads a value from the device, a checkpoint, an evaluation, "
            "garbage collection, a shape not seen before (which may be compiled for)."
        )
        evidence = f"{span} the median{often}, of {found.steps:,} timed steps"
        if found.data_share is not None:
            part = percent(found.data_share, 0) if found.data_share >= 0.005 else "none"
            evidence += f"; {part} of what they take more is waiting for data"
            action = LOAD_SOONER if found.data_share > 0.5 else action
        yield Finding(
            severity="gain",
            title=f"{steps} much longer than the others",
            variant=variant.name,
            evidence=evidence,
            action=action,
            gain_s=found.excess_s,
            details=("what they cost beyond the median, spread over all timed steps",),
        )


def left_out(context: Context) -> Iterator[Finding]:
    """Steps with an evaluation in them, which are no samples."""
    for variant in context.loops:
        loop, clean = variant.loop, step_s(variant)
        if loop is not None and loop.left_out_s:
            count, longest = len(loop.left_out_s), max(loop.left_out_s)
            against = "" if clean is None else f", a step without takes {seconds(clean)}"
            yield Finding(
                severity="note",
                title=f"{count:,} step{'' if count == 1 else 's'} with an evaluation "
                f"{'is' if count == 1 else 'are'} left out of the step time",
                variant=variant.name,
                evidence=f"{'it' if count == 1 else 'the longest'} took {seconds(longest)}{against}",
                action="Evaluate more rarely or on fewer batches if that is much of the whole run.",
            )


def drifted(context: Context) -> Iterator[Finding]:
    """A loop that was watched all the time, and whose steps took longer at its end."""
    for variant in _first(context):
        seen = None if variant.loop is None else variant.loop.watched
        if seen is None or seen.first_s <= 0 or seen.last_s < _SLOWER * seen.first_s:
            continue
        more = f" and {len(seen.drifts) - 2:,} more" if len(seen.drifts) > 2 else ""
        told = f"; {'; '.join(seen.drifts[:2])}{more}" if seen.drifts else ""
        yield Finding(
            severity="warning",
            title=f"At the end steps took {seen.last_s / seen.first_s:.2f} times as long as at the beginning",
            variant=variant.name,
            evidence=f"{seconds(seen.first_s)} at first, {seconds(seen.last_s)} at last, of {seen.steps:,} steps{told}",
            action="The other figures are of the beginning. Let a trace be made when it happens: --trace-on regression "
            'or trace_on=("regression",).',
        )


def slower_since(context: Context) -> Iterator[Finding]:
    """A capture that was triggered later, against the loop as it began."""
    for variant in context.loops:
        base = context.baseline_of(variant)
        ours, theirs = step_s(variant), None if base is None else step_s(base)
        if base is None or ours is None or theirs is None or ours < _SLOWER * theirs:
            continue
        yield Finding(
            severity="warning",
            title=f"{variant.name}: steps take {ours / theirs:.2f} times as long as in {base.name}",
            variant=variant.name,
            evidence=f"{seconds(ours)} against {seconds(theirs)}, medians of steps of one process each"
            + (f"; triggered: {variant.loop.trigger}" if variant.loop and variant.loop.trigger else "")
            + _changed_ops(context, variant, base),
            action="See what changed: waiting for data, ops and memory of the two, and the device's clocks.",
        )


def _first(context: Context) -> list[Variant]:
    """Loops from their beginning; what a later capture of one says is told by its difference."""
    return [variant for variant in context.loops if context.baseline_of(variant) is None]


def _of_timed(finding: Finding, clean: float | None, slow: float) -> Finding:
    """The finding with its gain as the same part of a timed step, which no profiler slowed down."""
    if finding.gain_s is None or not finding.per_step or clean is None or slow <= 0:
        return finding
    return replace(finding, gain_s=finding.gain_s * clean / slow)


def _idle_s(by_trace: Finding | None) -> float:
    """How long a device was idle while the loop waited: work queued before may go on meanwhile."""
    return 0.0 if by_trace is None else by_trace.gain_s or 0.0


def _waiting(variant: Variant, by_trace: Finding | None, idle_s: float | None) -> Finding | None:
    """Waiting for data as timed, where that is known, else as traced. `idle_s` is None where no device was traced."""
    loop, clean = variant.loop, step_s(variant)
    if loop is None or loop.data_wait_share is None or loop.data_wait_mean_s is None or clean is None:
        return by_trace
    wait_s = loop.data_wait_mean_s
    gain_s = wait_s if idle_s is None else min(wait_s, idle_s)
    if gain_s < COMMON * clean:
        return None
    meanwhile = "" if idle_s is None else f"; as traced the device is then idle for {seconds(idle_s)} a step"
    return Finding(
        severity="gain",
        title=f"{DATA_TITLE}, {percent(loop.data_wait_share, 0)} of the time",
        variant=variant.name,
        evidence=f"{seconds(wait_s)} a step on average in next() of its DataLoaders{_worst(loop)}, "
        f"{seconds(loop.data_wait_s or 0.0)} in the median step{meanwhile}",
        action=LOAD_SOONER,
        gain_s=gain_s,
        details=() if by_trace is None else by_trace.details,
    )


def _worst(loop: Loop) -> str:
    waiting = [rank for rank in loop.ranks if rank.data_wait_share is not None]
    if len(waiting) < 2:
        return ""
    worst = max(waiting, key=lambda rank: rank.data_wait_share or 0.0)
    return f" on rank {worst.rank}, which waits most"


def _changed_ops(context: Context, variant: Variant, base: Variant) -> str:
    """Where the two were traced, the ops that grew."""
    after, before = context.passes.get(variant.name), context.passes.get(base.name)
    if after is None or before is None or not after.traces or not before.traces:
        return ""
    change = difference(after.traces[0], before.traces[0])
    return "".join(f"; traced, {finding.evidence}" for finding in difference_findings(change))
