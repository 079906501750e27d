"""The ops of a step by phase and module, for https://www.speedscope.app."""

from perfkit.analysis.model.step import OUTSIDE, OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.store.stack_formats import StackProfile, WeightedStack, encode_speedscope_profiles


def build_speedscope(trace: RankTrace) -> bytes:
    """Build two profiles of the mean step: its time, and the time above the roofs where known."""
    within = [row for row in trace.ops if row.phase != OUTSIDE]
    above = [(row, row.seconds - row.attainable_s) for row in within if row.attainable_s is not None]
    profiles = [
        StackProfile(f"{trace.label}: time", "milliseconds", [_build_stack(row, row.seconds) for row in within])
    ]
    if any(excess_s > 0 for _, excess_s in above):
        stacks = [_build_stack(row, excess_s) for row, excess_s in above if excess_s > 0]
        profiles.append(StackProfile(f"{trace.label}: time above the roofline", "milliseconds", stacks))
    return encode_speedscope_profiles(profiles)


def _build_stack(row: OpRow, seconds: float) -> WeightedStack:
    """Phase, the module and those around it, the op."""
    levels = row.module.split("/") if "/" in row.module else row.module.split(".")
    modules = [level for level in levels if level]
    return WeightedStack([row.phase or "no phase", *modules, row.name], seconds * 1e3)
