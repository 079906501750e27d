"""Plans a workload whose sequences differ in length: `512:0.7,4096:0.3` of the steps."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as replace_run
from typing import Literal, NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, PlannedLength, PlannedVariant, StepTime
from perfkit.core.errors import UnknownParameterError, UsageError
from perfkit.core.note import make_note
from perfkit.core.spec import WorkloadSpec
from perfkit.core.units import format_percent
from perfkit.measure.redundant_size import read_batch_size
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.target.target import Target
from perfkit.plan.variants.length_odds import compute_exceeding_share, compute_longest_shares
from perfkit.plan.variants.plan import PlanRun
from perfkit.plan.variants.verdict import judge_length
from perfkit.workloads.workload_table import load_workload

Lengths = Mapping[int, float]  # the share by tokens per sequence; the shares add up to 1
LengthUnit = Literal["steps", "sequences"]  # what they are shares of

PARAMETER = "seq_len"
_LENGTH = re.compile(r"(\d+):(\d*\.?\d+)")


def parse_lengths(text: str) -> dict[int, float]:
    """Parse `512:0.7,4096:0.3`; shares that do not add up to 1 are a `UsageError`."""
    matches = [_LENGTH.fullmatch(part.strip()) for part in text.split(",")]
    lengths = {int(match[1]): float(match[2]) for match in matches if match is not None}
    if len(lengths) < len(matches):
        raise _make_lengths_error(text)
    check_lengths(lengths, text)
    return lengths


def check_lengths(lengths: Lengths, text: str) -> None:
    """Raise `UsageError` for lengths, as written in `text`, that are none, or whose shares do not add up to 1."""
    if min(lengths, default=0) < 1 or min(lengths.values(), default=0) <= 0:
        raise _make_lengths_error(text)
    if abs(sum(lengths.values()) - 1) > 1e-3:
        raise UsageError(f"--seq-lengths: the shares of {text!r} add up to {sum(lengths.values()):g}, not to 1")


def _make_lengths_error(text: str) -> UsageError:
    return UsageError(f"--seq-lengths: {text!r}: expected lengths with their shares, such as 512:0.7,4096:0.3")


def require_lengths(workload: WorkloadSpec, device: str, lengths: Lengths) -> None:
    """Raise `UsageError` for a workload that takes no `seq_len`, has one already, or cannot be as long."""
    if PARAMETER in workload.params:
        raise UsageError("--seq-lengths: the workload has a seq_len already; omit it", id="usage.conflict")
    for length in lengths:
        try:
            load_workload(workload, device=device, seq_len=length)
        except UnknownParameterError:
            raise UsageError(f"--seq-lengths: {workload.label} takes no seq_len") from None


def mix_lengths(lengths: Lengths, plan: PlanRun, drawn: LengthUnit = "steps") -> PlanRun:
    """A planner of the expected step: time, tokens and FLOPs are means over lengths, memory is that of the longest.

    `lengths` are shares of steps, or, `drawn` as "sequences", of sequences, each drawn alone: then a batch is padded to
    its longest, ranks wait for the one with the longest batch, and only tokens of sequences count as units.
    """

    def plan_mixed(run: ScheduledRun, target: Target) -> PlannedVariant:
        if run.skip:
            return plan(run, target)
        shares = _Shares(lengths, lengths, lengths)
        if drawn == "sequences":
            shares = _draw_batches(lengths, run, target)
        planned = {length: plan(_set_length(run, length), target) for length in lengths}
        joined = _join_lengths(planned, shares, target)
        if joined.reason or drawn == "steps":
            return joined
        mean = sum(length * share for length, share in lengths.items())
        units = planned[max(planned)].units_per_step * mean / max(planned)
        return replace(joined, units_per_step=units)

    return plan_mixed


class _Shares(NamedTuple):
    """Shares by length: of a rank's batches, of the longest ones among the ranks, and of the longest of whole steps."""

    batches: Lengths
    slowest: Lengths
    steps: Lengths


def _draw_batches(lengths: Lengths, run: ScheduledRun, target: Target) -> _Shares:
    spec = run.spec
    longest = _set_length(run, max(lengths)).spec.workload
    samples = read_batch_size(longest, target.kind)
    if samples is None:
        raise UsageError(f"--length-shares sequences: the batch size of {spec.workload.label} is unknown")
    counts = (1, spec.launch.world_size, spec.launch.world_size * spec.accumulation)
    return _Shares(*(compute_longest_shares(lengths, samples * count) for count in counts))


def _set_length(run: ScheduledRun, length: int) -> ScheduledRun:
    workload = run.spec.workload.replace_params(**{PARAMETER: length})
    return replace_run(run, spec=replace(run.spec, workload=workload))


def _join_lengths(planned: Mapping[int, PlannedVariant], shares: _Shares, target: Target) -> PlannedVariant:
    unknown = next((each for each in planned.values() if each.reason), None)
    if unknown is not None:
        return unknown
    longest = planned[max(planned)]

    def average(get: Callable[[PlannedVariant], float]) -> float:
        return sum(shares.batches[length] * get(each) for length, each in planned.items())

    mixed = ", ".join(f"{_format_share(share)} of {length}" for length, share in sorted(shares.batches.items()))
    note = make_note(
        "plan.mixed_lengths",
        f"the step is the mean of {mixed} tokens per sequence; memory and ops are those of {max(planned)}",
        longest=max(planned),
    )
    steps = [each.step_s for each in planned.values()]
    waits = [shares.slowest[length] for length in planned]
    lengths = tuple(
        judge_length(_describe_length(length, planned[length], shares), target) for length in sorted(planned)
    )
    return replace(
        longest,
        flops=average(lambda each: each.flops or 0.0),
        matrix_flops=average(lambda each: each.matrix_flops or 0.0),
        units_per_step=average(lambda each: each.units_per_step),
        step_s=_average_steps([step for step in steps if step is not None], waits) if all(steps) else None,
        assumptions=(*longest.assumptions, note),
        lengths=lengths,
        exceeding_share=compute_exceeding_share(lengths, target.limit_bytes),
    )


def _format_share(share: float) -> str:
    return format_percent(share, 0 if share >= 0.01 else 2)


def _describe_length(length: int, planned: PlannedVariant, shares: _Shares) -> PlannedLength:
    return PlannedLength(
        tokens=length,
        batch_share=shares.batches[length],
        step_share=shares.steps[length],
        needed=planned.needed_bytes,
    )


def _average_steps(steps: Sequence[StepTime], shares: Sequence[float]) -> StepTime:
    pairs = list(zip(shares, steps, strict=True))
    parts: dict[str, float] = {}
    for share, step in pairs:
        for name, seconds in step.parts.items():
            parts[name] = parts.get(name, 0.0) + share * seconds
    ordered = dict(sorted(parts.items(), key=lambda part: -part[1]))
    value, low, high = (
        sum(share * getattr(step.total, end) for share, step in pairs) for end in ("value", "low", "high")
    )
    total = Interval(value=value, low=low, high=high)
    return replace(steps[0], total=total, parts=ordered, dominant=next(iter(ordered), ""))
