"""Reads the results of a variant's instrumented passes."""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from perfkit.analysis.memory.rank import read_rank_account
from perfkit.analysis.model.fleet import Fleet, Pipeline, StageActions
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.gains import bound_gains
from perfkit.analysis.pipeline.replayed_analysis import ReplayedTrace, analyze_and_replay
from perfkit.analysis.ranks.arrivals import Arrivals, find_arrivals
from perfkit.analysis.ranks.fleet import FleetReducer
from perfkit.analysis.ranks.joint_simulation import MOST_RANKS, RankReplay, simulate_jointly
from perfkit.analysis.ranks.pipeline import add_measured_bubbles, build_pipeline
from perfkit.analysis.ranks.transfers import apply_transfers
from perfkit.analysis.suite.facts import derive_trace_facts
from perfkit.analysis.suite.passes import PassResults
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.trace.rank_trace import analyze_with_details
from perfkit.analysis.trace.roofline.fact_bounds import Facts
from perfkit.analysis.trace.stage_actions import find_stage_actions
from perfkit.analysis.trace.work.ops_by_step import OpsByStep, split_ops_by_step
from perfkit.core.note import make_note
from perfkit.core.record.environment import Environment
from perfkit.core.record.quantity import get_value
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.store.suite_reader import StoredRank
from perfkit.trace.counters.match_counters import read_counters
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace

_NO_LINKS = "ranks on several machines: links between them are not measured"
_NO_CLOCK = "no pipeline: ranks on several machines, and no common collective aligns their clocks"
_STAGES = "pipeline_stages"  # the fact that a rank is one of a pipeline


def read_passes(
    runs: VariantRuns, ceilings: DeviceCeilings | None, derived: Iterable[str], *, by_step: bool = False
) -> PassResults:
    """Read the results of the main run's ranks; missing ones stay empty.

    Args:
        runs: the variant's runs.
        ceilings: what its work is held against.
        derived: names of the facts to derive from the traces.
        by_step: whether to keep what each step of the first trace did.
    """
    if runs.main is None:
        return PassResults()
    hosts = {rank.record.environment.hostname for rank in runs.main.ranks if rank.record.environment is not None}
    if ceilings is not None and len(hosts) > 1:
        ceilings = replace(ceilings, links=(), links_reason=_NO_LINKS)
    accounts = [account for rank in runs.main.ranks if (account := read_rank_account(rank)) is not None]
    names = tuple(derived)
    facts: list[Facts] = []
    traces: list[RankTrace] = []
    by_steps: list[OpsByStep | None] = []
    fleet = FleetReducer()
    traced = sum(rank.trace is not None for rank in runs.main.ranks)
    with_others = runs.attached and 1 < traced <= MOST_RANKS
    compared = set() if runs.attached or traced < 2 else _list_compared_ranks(runs)
    actions: dict[int, StageActions] = {}
    met: list[tuple[Arrivals, RankReplay | None]] = []
    for rank in runs.main.ranks:
        wanted = runs.attached or not any(trace.steps for trace in traces)
        in_pipeline = _STAGES in rank.record.facts
        ops = _read_rank_ops(rank) if wanted or names or in_pipeline or rank.record.rank in compared else None
        if in_pipeline and ops is not None and (stages := find_stage_actions(ops)) is not None:
            actions[rank.record.rank] = stages
        flops = None if rank.record.flops is None else get_value(rank.record.flops.hardware)
        facts.append({**rank.record.facts, **({} if ops is None else derive_trace_facts(ops, names, flops))})
        if wanted and ops is not None and len(ops.trace):
            wants_steps = by_step and not any(trace.steps for trace in traces)
            analyzed = _analyze_trace(runs, rank, ops, ceilings, with_others=with_others)
            traces.append(analyzed.rank_trace)
            by_steps.append(split_ops_by_step(analyzed.engine) if wants_steps else None)
            if runs.attached:
                met.append((find_arrivals(ops, analyzed.engine), analyzed.replay))
                fleet.add(traces[-1], met[-1][0])
            elif rank.record.rank in compared:
                fleet.add(traces[-1], find_arrivals(ops, analyzed.engine))
        elif rank.record.rank in compared and ops is not None and len(ops.trace):
            fleet.add(*_analyze_compared_rank(runs, rank, ops, ceilings))
    if len(met) > 1:
        traces = simulate_jointly(traces, [came for came, _ in met], [replay for _, replay in met])
    jobs = fleet.reduce_jobs(
        {trace.file_info.path: trace.label for trace in traces}
        if runs.attached
        else {str(rank.trace): f"{runs.name}, rank {rank.record.rank}" for rank in runs.main.ranks}
    )
    together = next((job.fleet for job in jobs), None)
    transfers = [measured for job in jobs for measured in job.transfers]
    hosts_of_ranks = [_get_host(rank) for rank in runs.main.ranks]
    traces = [bound_gains(trace) for trace in apply_transfers(traces, transfers, hosts_of_ranks)]
    ahead_ns = _get_clock_offsets(together, actions) if len(hosts) > 1 else {}
    if together is not None and ahead_ns is None:
        together = replace(together, notes=(*together.notes, make_note("ranks.no_pipeline", _NO_CLOCK)))
    return PassResults(
        facts=tuple(facts),
        account=max(accounts, key=lambda account: account.peak_bytes, default=None),
        traces=tuple(traces),
        by_step=next(
            (steps for steps, trace in zip(by_steps, traces, strict=True) if trace.steps), next(iter(by_steps), None)
        ),
        pipeline=None if ahead_ns is None else _build_measured_pipeline(runs, actions, ahead_ns),
        fleet=together,
    )


def _get_host(rank: StoredRank) -> str:
    return "" if rank.record.environment is None else rank.record.environment.hostname


def _list_compared_ranks(runs: VariantRuns) -> set[int]:
    """The ranks of a bench to compare, few enough to read quickly."""
    ranks = () if runs.main is None else runs.main.ranks
    return {rank.record.rank for rank in [rank for rank in ranks if rank.trace is not None][:MOST_RANKS]}


def _analyze_compared_rank(
    runs: VariantRuns, rank: StoredRank, ops: Ops, ceilings: DeviceCeilings | None
) -> tuple[RankTrace, Arrivals]:
    """Analyze a further rank of a bench, keeping only the data for comparing ranks."""
    environment = rank.record.environment
    analyzed = analyze_with_details(ops, select_ceilings(ceilings, environment), environment=environment)
    trace = replace(
        analyzed.rank_trace,
        rank=rank.record.rank,
        world_size=runs.world_size,
        host=_get_host(rank),
    )
    return trace, find_arrivals(ops, analyzed.engine)


def _get_clock_offsets(fleet: Fleet | None, ranks: Collection[int]) -> dict[int, int] | None:
    """The clock offsets of ranks on several machines; None unless all are known."""
    rows = () if fleet is None else fleet.ranks
    offsets = {row.rank: row.clock_offset_s for row in rows}
    known = {rank: round(1e9 * offset) for rank in ranks if (offset := offsets.get(rank)) is not None}
    return known if len(known) == len(ranks) else None


def _build_measured_pipeline(
    runs: VariantRuns, actions: Mapping[int, StageActions], ahead_ns: Mapping[int, int]
) -> Pipeline | None:
    pipeline = build_pipeline(actions, ahead_ns)
    if pipeline is None or runs.main is None:
        return None
    records = {rank.record.rank: rank.record for rank in runs.main.ranks}
    first = records[pipeline.ranks[0].rank]
    device = "" if first.environment is None else first.environment.device
    return add_measured_bubbles(
        pipeline, {rank: record.facts for rank, record in records.items()}, first.fact_notes, device
    )


def _analyze_trace(
    runs: VariantRuns, rank: StoredRank, ops: Ops, ceilings: DeviceCeilings | None, *, with_others: bool
) -> ReplayedTrace:
    environment = rank.record.environment
    analyzed = analyze_and_replay(
        ops,
        select_ceilings(ceilings, environment),
        device_name="" if environment is None else environment.device_name,
        counters=None if rank.counters is None else read_counters(rank.counters),
        environment=environment,
        with_others=with_others,
    )
    label = runs.name if runs.world_size == 1 or not runs.attached else f"{runs.name}, rank {rank.record.rank}"
    trace = replace(
        analyzed.rank_trace,
        label=label,
        rank=rank.record.rank,
        world_size=runs.world_size,
        host=_get_host(rank),
    )
    return analyzed._replace(rank_trace=trace)


def select_ceilings(ceilings: DeviceCeilings | None, environment: Environment | None) -> DeviceCeilings | None:
    """The ceilings of the device that the run used, on a CPU those for its number of threads."""
    if ceilings is None or environment is None or ceilings.device != environment.device:
        return None
    if not is_cpu(environment.device):
        return ceilings
    threads = (None, environment.threads)
    return replace(ceilings, ceilings=tuple(ceiling for ceiling in ceilings.ceilings if ceiling.threads in threads))


def _read_rank_ops(rank: StoredRank) -> Ops | None:
    return None if rank.trace is None else read_ops(read_trace(rank.trace))
