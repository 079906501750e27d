"""What the instrumented passes of a variant showed: its facts, its memory, and where its time went."""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from perfkit.analysis.memory.rank import rank_account
from perfkit.analysis.model.fleet import Fleet
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.ranks.arrivals import arrivals
from perfkit.analysis.ranks.fleet import FleetReducer
from perfkit.analysis.suite.facts import trace_facts
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.trace.bounds import Facts
from perfkit.analysis.trace.rank_trace import analyse_with_engine
from perfkit.analysis.trace.work.engine import Engine
from perfkit.analysis.trace.work.per_step import OpsByStep, ops_by_step
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.devices.peak import CPU
from perfkit.record import Environment
from perfkit.store.read import StoredRank
from perfkit.trace.counters.match import read_counters
from perfkit.trace.ops import Ops, read_ops
from perfkit.trace.read import read_trace


@dataclass(frozen=True)
class Passes:
    """Facts of every rank, recorded and derived; the account of the fullest rank; the traces, wholly analysed.

    Of the many ranks of a bench, which do the same, the first with a traced step is analysed. Of a loop that perfkit
    was attached to all are, and `fleet` says who waits for whom: it has nothing to be compared with, so that its traces
    must say why it is slow. `by_step` are the ops of `trace`, where they were asked for.
    """

    facts: tuple[Facts, ...] = ()
    account: MemoryAccount | None = None
    traces: tuple[RankTrace, ...] = ()
    fleet: Fleet | None = None
    by_step: OpsByStep | None = None

    @property
    def trace(self) -> RankTrace | None:
        """The first with a step, else the first."""
        return next((trace for trace in self.traces if trace.steps), next(iter(self.traces), None))


def read_passes(
    runs: VariantRuns, ceilings: DeviceCeilings | None, derived: Iterable[str], *, by_step: bool = False
) -> Passes:
    """Read what the main run's ranks left; what is not there stays empty.

    Args:
        runs: the variant's runs.
        ceilings: what its work is held against.
        derived: names of the facts to derive from the traces.
        by_step: whether to keep what each step of the first trace did.
    """
    if runs.main is None:
        return Passes()
    accounts = [account for rank in runs.main.ranks if (account := rank_account(rank)) is not None]
    names = tuple(derived)
    facts: list[Facts] = []
    traces: list[RankTrace] = []
    by_steps: list[OpsByStep | None] = []
    fleet = FleetReducer()
    for rank in runs.main.ranks:
        wanted = runs.attached or not any(trace.steps for trace in traces)
        ops = _ops(rank) if wanted or names else None  # of the other ranks only facts are read
        facts.append({**rank.record.facts, **({} if ops is None else trace_facts(ops, names))})
        if wanted and ops is not None and len(ops.trace):
            wants_steps = by_step and not any(trace.steps for trace in traces)
            trace, work = _trace(runs, rank, ops, ceilings)
            traces.append(trace)
            by_steps.append(ops_by_step(work) if wants_steps else None)
            if runs.attached:
                fleet.add(traces[-1], arrivals(ops))
    return Passes(
        facts=tuple(facts),
        account=max(accounts, key=lambda account: account.peak_bytes, default=None),
        traces=tuple(traces),
        by_step=next(
            (steps for steps, trace in zip(by_steps, traces, strict=True) if trace.steps), next(iter(by_steps), None)
        ),
        fleet=fleet.result({trace.reading.path: trace.label for trace in traces}),
    )


def _trace(runs: VariantRuns, rank: StoredRank, ops: Ops, ceilings: DeviceCeilings | None) -> tuple[RankTrace, Engine]:
    environment = rank.record.environment
    trace, work = analyse_with_engine(
        ops,
        _that_hold(ceilings, environment),
        device_name="" if environment is None else environment.device_name,
        counters=None if rank.counters is None else read_counters(rank.counters),
        environment=environment,
    )
    label = runs.name if runs.world_size == 1 or not runs.attached else f"{runs.name}, rank {rank.record.rank}"
    return replace(trace, label=label, rank=rank.record.rank, world_size=runs.world_size), work


def _that_hold(ceilings: DeviceCeilings | None, environment: Environment | None) -> DeviceCeilings | None:
    """The ceilings of the device that the run used, on a CPU those for its number of threads."""
    if ceilings is None or environment is None or ceilings.device != environment.device:
        return None
    if environment.device != CPU:
        return ceilings
    threads = (None, environment.threads)
    return replace(ceilings, ceilings=tuple(ceiling for ceiling in ceilings.ceilings if ceiling.threads in threads))


def _ops(rank: StoredRank) -> Ops | None:
    return None if rank.trace is None else read_ops(read_trace(rank.trace))
