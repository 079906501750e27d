"""The cost of torch.compile, and when it pays."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from perfkit.analysis.model.estimate import Difference
from perfkit.analysis.model.suite import CompileSummary, WarmCompile
from perfkit.core.record.rank_record import Recompilation, SetupCost
from perfkit.core.units import format_seconds

_BETWEEN_REASONS = re.compile(r"; (?=\d+ x )")


def summarize_compile(
    facts: Mapping[str, float],
    notes: Mapping[str, str],
    setup: Sequence[SetupCost],
    baseline_setup: Sequence[SetupCost] | None,
    saved_per_step_s: float | None,
    *,
    decided: bool = True,
    recompilations: tuple[Recompilation, ...] = (),
    graph_calls: float | None = None,
    later: Iterable[Mapping[str, float]] = (),
) -> CompileSummary | None:
    """The summary of a compiled variant; None where the facts show no compiled graph.

    Args:
        facts: the record's facts.
        notes: explanations of facts; that of `graph_breaks` lists `<count> x <reason>`.
        setup: the variant's set-up costs.
        baseline_setup: the baseline's; None where it is not known.
        saved_per_step_s: what a step saves beside the baseline's; None where it is not known.
        decided: whether the comparison of step times reached a verdict; else the words say that it did not.
        recompilations: the record's.
        graph_calls: calls of compiled graphs in a traced step.
        later: facts of the variant's other processes, which may have found all graphs in the caches.

    The cost is the fact `compile_s`, else the difference between the two set-up times. The break-even step is
    cost / time saved per step, rounded up.
    """
    if "graphs" not in facts:
        return None
    cost = facts.get("compile_s")
    if cost is None and baseline_setup is not None:
        cost = sum(item.seconds for item in setup) - sum(item.seconds for item in baseline_setup)
    undecided = "" if decided else "; the comparison itself is inconclusive"
    step, words = _compute_break_even(cost, saved_per_step_s)
    breaks = facts.get("graph_breaks")
    return CompileSummary(
        seconds=cost,
        graphs=int(facts["graphs"]),
        graph_breaks=None if breaks is None else int(breaks),
        break_reasons=tuple(filter(None, _BETWEEN_REASONS.split(notes.get("graph_breaks", "")))),
        cache=_describe_cache(facts.get("compile_cache_hits"), facts.get("compile_cache_misses")),
        break_even_step=step,
        break_even=words + undecided,
        recompilations=recompilations,
        graph_calls=graph_calls,
        warm=_summarize_warm_compile(later, saved_per_step_s, undecided),
    )


def describe_break_even(cost: CompileSummary | WarmCompile, difference: Difference | None) -> str:
    """`break-even after 34 steps`, `never breaks even`, `break-even unknown`, with the comparison's doubt."""
    undecided = difference is not None and difference.verdict == "inconclusive"
    if cost.break_even_step is not None:
        return f"break-even after {cost.break_even_step:,} steps{' (inconclusive)' if undecided else ''}"
    return "never breaks even" if cost.break_even.startswith("never") and not undecided else "break-even unknown"


def _summarize_warm_compile(
    later: Iterable[Mapping[str, float]], saved_s: float | None, undecided: str
) -> WarmCompile | None:
    """Summarize processes with all caches warm; with caches disabled there are no hits and no misses."""
    costs = [
        facts["compile_s"]
        for facts in later
        if facts.get("compile_cache_misses") == 0 and facts.get("compile_cache_hits", 0) > 0 and "compile_s" in facts
    ]
    if not costs:
        return None
    step, words = _compute_break_even(median(costs), saved_s)
    return WarmCompile(seconds=median(costs), processes=len(costs), break_even_step=step, break_even=words + undecided)


def _compute_break_even(cost_s: float | None, saved_s: float | None) -> tuple[int | None, str]:
    if cost_s is None:
        return None, "unknown: compilation time was not measured"
    if saved_s is None:
        return None, "unknown: steps not compared with a baseline"
    if saved_s <= 0:
        return None, f"never: {format_seconds(-saved_s)} slower per step than the baseline"
    step = max(0, math.ceil(cost_s / saved_s))
    return step, f"after {step:,} steps: {format_seconds(cost_s)} spent, {format_seconds(saved_s)} saved per step"


def _describe_cache(hits: float | None, misses: float | None) -> str:
    if hits is None or misses is None:
        return "unknown"
    state = "warm" if misses == 0 and hits > 0 else "cold" if hits == 0 else "partly warm"
    return f"{state} ({hits:.0f} hits, {misses:.0f} misses)"
