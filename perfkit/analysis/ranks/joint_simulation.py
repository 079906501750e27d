"""Gains of changes on each of several ranks, with all ranks simulated at once."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from perfkit.analysis.model.replay import SimulatedChange
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.ranks.arrivals import Arrivals
from perfkit.analysis.ranks.matching import find_shared_collectives
from perfkit.analysis.replay.job_graph import JobGraph, build_job_graph
from perfkit.analysis.replay.rank_graph import GraphDelta, RankGraph
from perfkit.analysis.replay.replay import MOST_UNEXPLAINED
from perfkit.trace.model import NONE

# With more nodes, a what-if would take seconds; with more ranks, graphs too much memory.
MOST_NODES = 1_000_000
MOST_RANKS = 8

# The names of all findings at once, and of all work at its roof.
ALL_FINDINGS, ROOFS = "all findings", "roofs"


class RankReplay(NamedTuple):
    """A rank's graph with the changes to simulate, by the rule of a finding (or of all) and the text of a what-if.

    `parts` divides the gains of findings. `of_steps` is whether they cover only the steps.
    """

    graph: RankGraph
    findings: Mapping[str, GraphDelta]
    what_ifs: Mapping[str, GraphDelta]
    parts: int
    of_steps: bool


class _ReplayLength(NamedTuple):
    """The length of a rank, and of its marked steps."""

    span_ns: float
    steps_ns: float | None

    def get_ns(self, replay: RankReplay) -> float:
        return self.span_ns if self.steps_ns is None or not replay.of_steps else self.steps_ns


def simulate_jointly(
    traces: Sequence[RankTrace], arrivals: Sequence[Arrivals], replays: Sequence[RankReplay | None]
) -> list[RankTrace]:
    """The traces with gains simulated with all ranks that meet the first one; as they are where that explains less."""
    result = list(traces)
    met = find_shared_collectives(arrivals)
    chosen = [
        number
        for number, (replay, came, offset_ns) in enumerate(zip(replays, arrivals, met.offset_ns, strict=True))
        if replay is not None and offset_ns is not None and came.kernel is not None
        if (met.numbers[number] != NONE).any() and not _is_refused(traces[number])
    ]
    ranks = [replay for number in chosen if (replay := replays[number]) is not None]
    if len(ranks) < 2 or sum(len(rank.graph) for rank in ranks) > MOST_NODES:
        return result
    rows = []
    for number, rank in zip(chosen, ranks, strict=True):
        numbers = np.full(len(rank.graph) - rank.graph.first_kernel, NONE, np.int64)
        numbers[arrivals[number].kernel] = met.numbers[number]
        rows.append(numbers)
    job = build_job_graph([rank.graph for rank in ranks], rows, [met.offset_ns[number] or 0 for number in chosen])
    before = _simulate_lengths(job, ranks, [None] * len(ranks))
    if any(abs(_compute_error(length, rank)) > MOST_UNEXPLAINED for length, rank in zip(before, ranks, strict=True)):
        return result
    names = sorted({name for rank in ranks for name in rank.findings})
    texts = sorted({text for rank in ranks for text in rank.what_ifs})
    by_finding = {name: _simulate_lengths(job, ranks, [rank.findings.get(name) for rank in ranks]) for name in names}
    by_text = {text: _simulate_lengths(job, ranks, [rank.what_ifs.get(text) for rank in ranks]) for text in texts}
    for place, (number, rank) in enumerate(zip(chosen, ranks, strict=True)):
        findings = {name: lengths[place] for name, lengths in by_finding.items()}
        what_ifs = {text: lengths[place] for text, lengths in by_text.items()}
        result[number] = _apply_gains(traces[number], rank, before[place], findings, what_ifs, len(ranks))
    return result


def _is_refused(trace: RankTrace) -> bool:
    return trace.replay is None or bool(trace.replay.reason)


def _compute_error(length: _ReplayLength, rank: RankReplay) -> float:
    return length.span_ns / float((rank.graph.at_ns + rank.graph.duration_ns).max()) - 1


def _simulate_lengths(
    job: JobGraph, ranks: Sequence[RankReplay], changes: Sequence[GraphDelta | None]
) -> list[_ReplayLength]:
    graphs = [rank.graph.apply_delta(change) for rank, change in zip(ranks, changes, strict=True)]
    return [
        _ReplayLength(
            float(ends.max()), None if rank.graph.steps is None else rank.graph.steps.measure_length_ns(happens, ends)
        )
        for rank, (happens, ends) in zip(ranks, job.simulate_ranks(graphs), strict=True)
    ]


def _apply_gains(
    trace: RankTrace,
    rank: RankReplay,
    before: _ReplayLength,
    findings: Mapping[str, _ReplayLength],
    what_ifs: Mapping[str, _ReplayLength],
    ranks: int,
) -> RankTrace:
    def gain_s(name: str) -> float:
        return max(0.0, before.get_ns(rank) - findings[name].get_ns(rank)) / 1e9 / rank.parts

    gains = trace.gains
    if gains is not None:
        gains = replace(
            gains,
            by_finding={name: gain_s(name) for name in gains.by_finding},
            together_s=None if gains.together_s is None else gain_s(ALL_FINDINGS),
            together_path={},
            roofs_s=None if gains.roofs_s is None else gain_s(ROOFS),
        )
    return replace(
        trace,
        replay=None if trace.replay is None else replace(trace.replay, ranks=ranks),
        gains=gains,
        what_ifs=tuple(
            _update_what_if(asked, rank, before, what_ifs[asked.change]) if asked.change in what_ifs else asked
            for asked in trace.what_ifs
        ),
    )


def _update_what_if(
    asked: SimulatedChange, rank: RankReplay, before: _ReplayLength, after: _ReplayLength
) -> SimulatedChange:
    gain = before.span_ns - after.span_ns
    step = None
    if before.steps_ns is not None and after.steps_ns is not None and rank.graph.steps is not None:
        step = (before.steps_ns - after.steps_ns) / 1e9 / rank.graph.steps.number
    return replace(asked, gain_s=gain / 1e9, share=gain / before.span_ns, step_gain_s=step)
