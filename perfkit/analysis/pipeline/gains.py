"""Simulates the gains of a trace's findings: replays the trace with each change."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.findings.change import Change, raise_to_roof
from perfkit.analysis.findings.rule import About, RuleResult
from perfkit.analysis.model.replay import FindingGains, TouchedTime
from perfkit.analysis.model.step import OUTSIDE
from perfkit.analysis.model.trace import LAST_ARRIVAL, RankTrace
from perfkit.analysis.pipeline.effects import build_effect
from perfkit.analysis.ranks.joint_simulation import ALL_FINDINGS, ROOFS
from perfkit.analysis.replay.change_effect import ChangeEffect, apply_effect, merge_effects
from perfkit.analysis.replay.graph_changes import ModifiedGraph
from perfkit.analysis.replay.rank_graph import GraphDelta, compute_delta
from perfkit.analysis.replay.replay import ReplayResult, simulate_length_and_path, simulate_length_s
from perfkit.analysis.replay.step_nodes import find_step_nodes
from perfkit.analysis.replay.touched_time import measure_touched_time
from perfkit.analysis.trace.findings.tables.trace_rules import RULES
from perfkit.analysis.trace.findings.trace_thresholds import NOTABLE
from perfkit.analysis.trace.findings.trace_view import TRANSFERS, TraceView, sum_above_roof_s
from perfkit.analysis.trace.rank_trace import DetailedAnalysis

_LOST = "kernels are missing from the trace"


class Simulation(NamedTuple):
    """The gains of findings, and by id the graph change of each; of all under `ALL_FINDINGS`."""

    gains: FindingGains | None
    changes: Mapping[str, GraphDelta]


def simulate_findings(analyzed: DetailedAnalysis, replayed: ReplayResult, *, keep: bool = False) -> Simulation:
    """The gain of each finding with a change, of all findings, and of all work at its roof; None without any.

    `keep` the graph change of each.
    """
    trace = analyzed.rank_trace
    view = TraceView(trace)
    results = dict(_list_changes(view)) if trace.is_work_known else {}
    roofs = _raise_all_to_roofs(trace) if trace.is_work_known else Change()
    if not results and not roofs:
        return Simulation(None, {})
    lost = trace.lost_kernels is not None and trace.lost_kernels.matters
    if reason := replayed.result.reason or (_LOST if lost or trace.unrecorded_steps else ""):
        return Simulation(FindingGains(reason=reason), {})
    asked = {key: result.change for key, result in results.items()}
    effects = _build_effects(asked, roofs, analyzed, replayed)
    jointly = _build_joint_effects(asked, effects, analyzed, replayed) if keep else effects
    steps, parts = find_step_nodes(replayed.graph) if trace.steps else None, analyzed.engine.parts
    before = simulate_length_s(replayed, steps)
    gains: dict[str, float] = {}
    touched: dict[str, TouchedTime] = {}
    changes: dict[str, GraphDelta] = {}

    def keep_change(key: str, change: ModifiedGraph, effect: ChangeEffect, joint: ChangeEffect) -> None:
        if keep:
            changed = change if joint is effect else apply_effect(replayed.graph, replayed.work, joint)
            changes[key] = compute_delta(replayed.graph, changed)

    for key, effect in effects.items():
        change = apply_effect(replayed.graph, replayed.work, effect)
        gains[key] = max(0.0, before - simulate_length_s(replayed, steps, change)) / parts
        if key != ROOFS:
            touched[key] = measure_touched_time(replayed.graph, change, parts)
        keep_change(key, change, effect, jointly[key])
    roofs_s = gains.pop(ROOFS, None)
    # A fix that is not reported is none of all.
    combined = [key for key, gain_s in gains.items() if not view.is_lost_in_missing_work(gain_s)]
    together_s, together_path = gains[combined[0]] if combined else None, dict[str, float]()
    if len(combined) > 1:
        effect, joint = (merge_effects([each[key] for key in combined]) for each in (effects, jointly))
        if all(jointly[key] is effects[key] for key in combined):
            joint = effect
        change = apply_effect(replayed.graph, replayed.work, effect)
        after, together_path = simulate_length_and_path(replayed, steps, change)
        together_s = max(0.0, before - after) / parts
        keep_change(ALL_FINDINGS, change, effect, joint)
    elif combined and keep:
        changes[ALL_FINDINGS] = changes[combined[0]]
    simulated = FindingGains(
        by_finding=gains,
        touched=touched,
        together_s=together_s,
        together_path=together_path,
        roofs_s=roofs_s,
        step_s=trace.step_s,
    )
    return Simulation(simulated, changes)


def bound_gains(trace: RankTrace) -> RankTrace:
    """The trace with gains that agree with each other and with what they remove.

    Those of transfers are no larger than the transfers that the traces of other ranks show.

    A replay of one rank takes the shortest of equal collectives for a transfer, though the rank may have waited in all.
    """
    gains = trace.gains
    if gains is None:
        return trace
    if any(row.transfer_basis == LAST_ARRIVAL for row in trace.collectives):
        gains = _limit_to_transfers(gains, {key: result.most_s for key, result in _list_changes(TraceView(trace))})
    # Ranks that are simulated together gain by what changes on the others, too.
    alone = trace.replay is None or trace.replay.ranks == 1
    return replace(trace, gains=_limit_to_sum(_limit_to_touched(gains) if alone else gains))


def _limit_to_transfers(gains: FindingGains, most: Mapping[str, float]) -> FindingGains:
    kept = {name: min(gain_s, most[name]) for name, gain_s in gains.by_finding.items() if name in most}
    # All findings together lose at most what the one that lost most of the same transfers did.
    lost_s = max((gain_s - kept.get(name, 0.0) for name, gain_s in gains.by_finding.items()), default=0.0)
    touched = {
        name: replace(time, kernels_s=min(time.kernels_s, most[name]))
        for name, time in gains.touched.items()
        if name in kept
    }
    together_s = None if gains.together_s is None else max(gains.together_s - lost_s, *kept.values(), 0.0)
    return replace(gains, by_finding=kept, touched=touched, together_s=together_s)


def _limit_to_touched(gains: FindingGains) -> FindingGains:
    """No fix gains more than the time that it removes."""
    kept = {
        name: min(gain_s, gains.touched[name].total_s) if name in gains.touched else gain_s
        for name, gain_s in gains.by_finding.items()
    }
    return replace(gains, by_finding=kept)


def _limit_to_sum(gains: FindingGains) -> FindingGains:
    """All fixes together gain no more than one by one: what only pays together is not claimed."""
    together_s = None if gains.together_s is None else min(gains.together_s, sum(gains.by_finding.values()))
    return replace(gains, together_s=together_s)


def _build_effects(
    asked: Mapping[str, Change], roofs: Change, analyzed: DetailedAnalysis, replayed: ReplayResult
) -> dict[str, ChangeEffect]:
    """The effects by finding, and of all work at its roof."""
    built = {key: build_effect(change, analyzed, replayed) for key, change in asked.items()}
    effects = {key: effect for key, effect in built.items() if effect is not None}
    if roofs and (effect := build_effect(roofs, analyzed, replayed)) is not None:
        effects[ROOFS] = effect
    return effects


def _build_joint_effects(
    asked: Mapping[str, Change],
    effects: Mapping[str, ChangeEffect],
    analyzed: DetailedAnalysis,
    replayed: ReplayResult,
) -> dict[str, ChangeEffect]:
    """The same effects for a simulation with the other ranks, in which those of transfers differ."""
    result = dict(effects)
    for key, change in asked.items():
        effect = build_effect(change, analyzed, replayed, together=True) if TRANSFERS in change.without else None
        if effect is not None:
            result[key] = effect
    return result


def _raise_all_to_roofs(trace: RankTrace) -> Change:
    """Raise all work of the steps to its roof, if it is worth a simulation."""
    rows = [row for row in trace.kernels or trace.ops if row.phase != OUTSIDE and not row.above_roof]
    return raise_to_roof(rows) if (sum_above_roof_s(rows) or 0.0) >= NOTABLE * trace.step_s else Change()


def _list_changes(view: TraceView) -> list[tuple[str, RuleResult]]:
    """The results worth simulating, by id."""
    return [
        (result.finding.id, result)
        for rule in RULES
        if rule.reads is TraceView and rule.about == About.STEP
        for result in rule.check(view)
        if isinstance(result, RuleResult) and result.change and view.get_share(result.finding.gain_s or 0.0) >= NOTABLE
    ]
