"""The answer of a search in words: what to switch on, and what it gains."""

from collections.abc import Iterator

from perfkit.core import units
from perfkit.tune.model.tune_result import Objective, Proof, TuneResult
from perfkit_reports.cells import format_factor, format_range, format_relative

_QUANTITIES: dict[Objective, str] = {"time": "step time", "memory": "peak memory", "cost": "time per sample"}


def build_headline(result: TuneResult) -> str:
    """What to switch on and its proven gain, else why nothing."""
    proof, best = result.proof, result.best
    quantity = _QUANTITIES[result.objective]
    if result.conclusion == "interrupted":
        return f"Interrupted: best so far {best}, not proven." if best else "Interrupted: no proven improvement so far."
    if result.conclusion == "no gain":
        return f"Keep the baseline: no trial improved {quantity}."
    if proof is None:
        return f"{best} improved {quantity} in the search, but could not be measured again."
    if result.conclusion == "proven":
        return f"Use {best}: {describe_gain(result.objective, proof)}."
    return f"{best} is not proven: {describe_gain(result.objective, proof)} in new processes."


def describe_gain(objective: Objective, proof: Proof) -> str:
    """`1.8× faster (1.7–1.9×)`, or `42 % less memory`."""
    if objective == "memory" and proof.peak_bytes is not None and proof.baseline_peak_bytes:
        return _describe_memory(proof.peak_bytes / proof.baseline_peak_bytes)
    interval = format_speed_interval(proof.low, proof.high)
    return f"{format_factor(1 / proof.ratio)} {'faster' if proof.ratio < 1 else 'as fast'} ({interval})"


def format_speed_interval(low: float | None, high: float | None) -> str:
    """The interval of a speed-up, of that of a ratio of times."""
    if low is None or high is None:
        return "no interval"
    return format_range(format_factor(1 / high), format_factor(1 / low), "×")


def list_lead(result: TuneResult) -> Iterator[str]:
    """What else changes: memory or time, the losses, and the gain over the best technique alone."""
    proof = result.proof
    if proof is not None:
        if result.objective == "memory":
            yield f"Step time: {format_factor(proof.ratio)} of the baseline's."
        elif proof.peak_bytes is not None and proof.baseline_peak_bytes:
            yield f"Peak memory: {units.format_signed_percent(proof.peak_bytes / proof.baseline_peak_bytes - 1)}."
        yield f"Losses: {_describe_losses(proof)}."
        if proof.single_ratio is not None:
            interval = format_speed_interval(proof.single_low, proof.single_high)
            yield (
                f"{format_factor(1 / proof.single_ratio)} as fast ({interval}) as {result.best_single}, the best "
                "technique alone."
            )
    if result.end_reason:
        spent = units.format_seconds(result.spent_s)
        yield f"The search ended after {spent} of {units.format_seconds(result.budget_s)}: {result.end_reason}."


def _describe_memory(ratio: float) -> str:
    change = units.format_percent(abs(1 - ratio))
    return f"{change} less memory" if ratio < 1 else f"{change} more memory" if ratio > 1 else "unchanged"


def _describe_losses(proof: Proof) -> str:
    if proof.largest_difference is None:
        return proof.parity
    drawn = ", with the random numbers of eager code" if proof.eager_random else ""
    allowed = "" if proof.tolerance is None else f" of {format_relative(proof.tolerance)} allowed"
    return f"{proof.parity} (largest difference {format_relative(proof.largest_difference)}{allowed}{drawn})"
