"""One trace analysed and replayed: what is on its critical path, what its findings and other changes would gain."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.findings.trace.gains import simulate_findings
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.ranks.together import MOST_NODES, RankReplay
from perfkit.analysis.replay.change import parse
from perfkit.analysis.replay.modify import modified
from perfkit.analysis.replay.path_spans import path_spans
from perfkit.analysis.replay.rank_graph import changed, rank_graph
from perfkit.analysis.replay.replay import replay, what_if
from perfkit.analysis.replay.stretches import stretches
from perfkit.analysis.timeline.timeline import timelines
from perfkit.analysis.trace.rank_trace import analyse_wholly
from perfkit.analysis.trace.work.engine import Engine
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.record import Environment
from perfkit.trace.counters.match import Counters
from perfkit.trace.ops import Ops


class Whole(NamedTuple):
    """A trace with its gains, and the work that it was made of. `replay` is what other ranks are simulated with, None
    where that is not asked for, or too much."""

    rank_trace: RankTrace
    engine: Engine
    replay: RankReplay | None


def analyse_and_replay(
    ops: Ops,
    ceilings: DeviceCeilings | None,
    *,
    device_name: str = "",
    counters: Counters | None = None,
    environment: Environment | None = None,
    what_ifs: Sequence[str] = (),
    with_others: bool = False,
) -> Whole:
    """See `analyse_wholly`; `what_ifs` are changes to simulate (`perfkit.analysis.replay.change.parse`).

    `with_others`: other ranks of its job may be simulated with it.
    """
    replayed = replay(ops)
    analysed = analyse_wholly(
        ops,
        ceilings,
        device_name=device_name,
        counters=counters,
        environment=environment,
        critical=None if replayed is None else replayed.path.kernels,
    )
    path = None if replayed is None else path_spans(replayed)
    classes = replayed.work.classes if replayed is not None and replayed.work.on_device else None
    shown = timelines(ops, analysed.engine.windows, analysed.idle, path, classes)
    rank_trace = replace(analysed.rank_trace, timelines=shown)
    if replayed is None or path is None:
        return Whole(rank_trace, analysed.engine, None)
    together = with_others and len(replayed.graph) <= MOST_NODES // 2
    host = None if analysed.idle is None else analysed.idle.host
    simulation = simulate_findings(analysed, replayed, keep=together)
    rank_trace = replace(
        rank_trace,
        replay=replace(replayed.result, stretches=stretches(replayed, path, host)),
        what_ifs=tuple(what_if(replayed, text) for text in what_ifs),
        gains=simulation.gains,
    )
    if not together:
        return Whole(rank_trace, analysed.engine, None)
    graph, work = replayed.graph, replayed.work
    asked = {text: changed(graph, modified(graph, work, parse(text))) for text in what_ifs}
    of_steps, parts = bool(rank_trace.steps), analysed.engine.parts
    sent = RankReplay(rank_graph(graph), simulation.changes, asked, parts, of_steps)
    return Whole(rank_trace, analysed.engine, sent)
