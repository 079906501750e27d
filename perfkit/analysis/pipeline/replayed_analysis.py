"""Analyzes and replays one trace: its critical path, and the gains of findings and other changes."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.gains import simulate_findings
from perfkit.analysis.ranks.joint_simulation import MOST_NODES, RankReplay
from perfkit.analysis.replay.critical_path_segments import build_path_rows
from perfkit.analysis.replay.graph_changes import apply_what_if
from perfkit.analysis.replay.path_spans import build_path_spans, sum_path_kinds
from perfkit.analysis.replay.rank_graph import compute_delta, extract_rank_graph
from perfkit.analysis.replay.replay import replay_trace, simulate_what_if
from perfkit.analysis.replay.what_if_syntax import parse_what_if
from perfkit.analysis.timeline.step_timeline import Window, build_timelines
from perfkit.analysis.trace.rank_trace import analyze_with_details
from perfkit.analysis.trace.time.step_windows import find_step_windows
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.core.record.environment import Environment
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.trace.counters.match_counters import LaunchCounters
from perfkit.trace.ops.ops import Ops


class ReplayedTrace(NamedTuple):
    """A trace with its gains and its work. `replay_trace` is the input for joint simulation with other ranks, None
    where not requested or too large."""

    rank_trace: RankTrace
    engine: WorkAnalysis
    replay: RankReplay | None


def analyze_and_replay(
    ops: Ops,
    ceilings: DeviceCeilings | None,
    *,
    device_name: str = "",
    counters: LaunchCounters | None = None,
    environment: Environment | None = None,
    by_device: Sequence[DeviceCeilings] = (),
    what_ifs: Sequence[str] = (),
    with_others: bool = False,
    window: Window | None = None,
) -> ReplayedTrace:
    """See `analyze_with_details`; `what_ifs` are changes to simulate
    (`perfkit.analysis.replay.what_if_syntax.parse_what_if`).

    `with_others`: other ranks of its job may be simulated with it. `window` is the time that the timeline shows instead
    of steps.
    """
    windows = find_step_windows(ops)
    replayed = replay_trace(ops, windows)
    analyzed = analyze_with_details(
        ops,
        ceilings,
        device_name=device_name,
        counters=counters,
        environment=environment,
        critical=None if replayed is None else replayed.path.kernels,
        by_device=by_device,
        windows=windows,
    )
    path = None if replayed is None else build_path_spans(replayed)
    classes = replayed.work.classes if replayed is not None and replayed.work.on_device else None
    shown = build_timelines(ops, analyzed.engine.windows, analyzed.idle, path, classes, window)
    rank_trace = replace(analyzed.rank_trace, timelines=shown)
    if replayed is None or path is None:
        return ReplayedTrace(rank_trace, analyzed.engine, None)
    together = with_others and len(replayed.graph) <= MOST_NODES // 2
    host = None if analyzed.idle is None else analyzed.idle.host
    simulation = simulate_findings(analyzed, replayed, keep=together)
    step_path = sum_path_kinds(path, analyzed.engine.windows.spans, analyzed.engine.parts)
    rank_trace = replace(
        rank_trace,
        replay=replace(replayed.result, segments=build_path_rows(replayed, path, host), step_path=step_path),
        what_ifs=tuple(simulate_what_if(replayed, text) for text in what_ifs),
        gains=simulation.gains,
    )
    if not together:
        return ReplayedTrace(rank_trace, analyzed.engine, None)
    graph, work = replayed.graph, replayed.work
    asked = {text: compute_delta(graph, apply_what_if(graph, work, parse_what_if(text))) for text in what_ifs}
    of_steps, parts = bool(rank_trace.steps), analyzed.engine.parts
    sent = RankReplay(extract_rank_graph(graph), simulation.changes, asked, parts, of_steps)
    return ReplayedTrace(rank_trace, analyzed.engine, sent)
