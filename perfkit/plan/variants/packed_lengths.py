"""Plans sequences of several lengths that are packed into rows of one length, against padding them to the longest."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace as replace_run

from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, Packing, PlannedLength, PlannedVariant, StepTime
from perfkit.core.errors import UnknownParameterError, UsageError
from perfkit.core.note import Note, make_note
from perfkit.cost.calls.op_call import OpClass
from perfkit.devices.accelerator import is_cpu
from perfkit.measure.redundant_size import read_batch_facts
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.target.target import Target
from perfkit.plan.variants.length_odds import compute_exceeding_share
from perfkit.plan.variants.mixed_lengths import PARAMETER, Lengths
from perfkit.plan.variants.plan import PlanRun
from perfkit.plan.variants.verdict import judge_length
from perfkit.workloads.workload_table import load_workload

# Sequences that are packed on trial, to find how full rows are.
_SEQUENCES = 10_000


def check_rows(lengths: Lengths, row: int) -> None:
    """Raise `UsageError` for rows that are shorter than a sequence, which would be cut."""
    if row < max(lengths):
        raise UsageError(f"--packing: rows of {row} tokens would cut sequences of {max(lengths)}")


def pack_lengths(lengths: Lengths, row: int, plan: PlanRun) -> PlanRun:
    """A planner of steps whose rows of `row` tokens hold several sequences; units are tokens of sequences.

    Each row is a sample of the batch. Padded to the longest, a step has as many rows more as fit into a packed one, so
    that both have about the same number of tokens.
    """
    fill, longest = compute_fill(lengths, row), max(lengths)

    def plan_packed(run: ScheduledRun, target: Target) -> PlannedVariant:
        if run.skip:
            return plan(run, target)
        packed = plan(_set_sizes(run, {PARAMETER: row}), target)
        padded = plan(_set_sizes(run, {PARAMETER: longest, **_scale_batch(run, target, row // longest)}), target)
        if padded.reason or packed.reason:
            return packed if packed.reason else padded
        fused = not is_cpu(target.kind) and packed.step_s is not None and OpClass.ATTENTION in packed.step_s.parts
        step = packed.step_s
        if fused and step is not None and padded.step_s is not None:
            # Of a whole row of either length, in a step of as many packed rows.
            tokens = packed.units_per_step / padded.units_per_step
            whole = {row: _get_attention_s(step), longest: tokens * _get_attention_s(padded.step_s) * longest / row}
            step = _replace_attention(step, _time_documents(whole, row * fill, lengths, row))
        mean = _compute_mean(lengths)
        packing = Packing(
            row_tokens=row,
            fill=fill,
            attention="documents" if fused else "rows",
            padded_tokens=longest,
            padded_fill=mean / longest,
            padded_step_s=None if padded.step_s is None else padded.step_s.total,
            padded_units_per_step=padded.units_per_step * mean / longest,
            padded_needed=padded.needed_bytes,
        )
        return replace(
            packed,
            step_s=step,
            units_per_step=packed.units_per_step * fill,
            packing=packing,
            lengths=(length := judge_length(_describe_rows(row, packed), target),),
            exceeding_share=compute_exceeding_share([length], target.limit_bytes),
            assumptions=(*packed.assumptions, _note_attention(packing)),
        )

    return plan_packed


def _describe_rows(row: int, packed: PlannedVariant) -> PlannedLength:
    """Packed rows are all of one length, whatever sequences are drawn."""
    return PlannedLength(tokens=row, batch_share=1.0, step_share=1.0, needed=packed.needed_bytes)


def compute_fill(lengths: Lengths, row: int) -> float:
    """The share of rows that sequences fill, packed by best fit, the longest first, as TRL's `bfd` does."""
    free: Counter[int] = Counter()  # rows by tokens left
    rows = tokens = 0
    for length, share in sorted(lengths.items(), reverse=True):
        for _ in range(round(share * _SEQUENCES)):
            tokens += length
            left = min((space for space in free if space >= length), default=None)
            if left is None:
                rows, left = rows + 1, row
            else:
                free[left] -= 1
                if not free[left]:
                    del free[left]
            free[left - length] += 1
    return tokens / (rows * row)


def _scale_batch(run: ScheduledRun, target: Target, factor: int) -> dict[str, int]:
    """The batch size times a factor; nothing where it stays, or the workload does not take one."""
    workload = run.spec.workload
    batch_size = read_batch_facts(workload, target.kind).get("batch_size")
    if factor == 1 or batch_size is None:
        return {}
    sizes = {"batch_size": int(batch_size) * factor}
    try:
        load_workload(workload.replace_params(**sizes), device=target.kind)
    except UnknownParameterError:
        return {}
    return sizes


def _set_sizes(run: ScheduledRun, sizes: Mapping[str, int]) -> ScheduledRun:
    return replace_run(run, spec=replace(run.spec, workload=run.spec.workload.replace_params(**sizes)))


def _compute_mean(lengths: Lengths) -> float:
    return sum(length * share for length, share in lengths.items())


def _get_attention_s(step: StepTime) -> float:
    return step.parts.get(OpClass.ATTENTION, 0.0)


def _time_documents(planned: Mapping[int, float], tokens: float, lengths: Lengths, row: int) -> float:
    """Seconds of attention within sequences, in rows with so many `tokens` of them.

    Attention takes aL + bL² for a sequence of L tokens, by the `planned` seconds of a row and of the longest sequence.
    """
    longest = max(lengths)
    b = planned[row] / row**2
    if row > longest:
        b = (planned[row] / row - planned[longest] / longest) / (row - longest)
    b = min(max(b, 0.0), planned[row] / row**2)
    a = planned[row] / row - b * row
    number = tokens / _compute_mean(lengths)
    return number * sum(share * (a * length + b * length**2) for length, share in lengths.items())


def _replace_attention(step: StepTime, seconds: float) -> StepTime:
    """The step with so much time of attention; its bounds stay as far apart as they were, as a ratio."""
    parts = {**step.parts, OpClass.ATTENTION.value: seconds}
    ordered = dict(sorted(parts.items(), key=lambda part: -part[1]))
    ratio = 1 + (seconds - _get_attention_s(step)) / step.total.value
    total = step.total
    bounds = Interval(value=total.value * ratio, low=total.low * ratio, high=total.high * ratio)
    return replace(step, total=bounds, parts=ordered, dominant=next(iter(ordered), ""))


def _note_attention(packing: Packing) -> Note:
    how = "over whole rows, for lack of a kernel that takes the lengths of sequences"
    if packing.attention == "documents":
        how = "within sequences, whose lengths the program must pass to the kernel (cu_seqlens); ops are of whole rows"
    return make_note("plan.packed_lengths", f"attention is computed {how}", row_tokens=packing.row_tokens)
