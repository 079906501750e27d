"""What the instrumented passes of a variant showed: its facts, its memory, and where its time went."""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from perfkit.analysis.memory.rank import rank_account
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.analysis.model.trace import Fleet, RankTrace
from perfkit.analysis.ranks.arrivals import arrivals
from perfkit.analysis.ranks.fleet import FleetReducer
from perfkit.analysis.suite.facts import trace_facts
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.analysis.trace.bounds import Facts
from perfkit.analysis.trace.rank_trace import analyse_ops
from perfkit.analysis.trace.roofs import roofs_of
from perfkit.analysis.trace.step_time import StepTime, of_trace, step_time
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.devices.peak import CPU
from perfkit.record import Environment, RankRecord
from perfkit.store.read import StoredRank
from perfkit.trace.counters.match import read_counters
from perfkit.trace.ops import Ops, read_ops
from perfkit.trace.read import read_trace


@dataclass(frozen=True)
class Passes:
    """Facts of every rank, recorded and derived; the account of the fullest rank; the step of the first rank traced.

    `traces` are the whole analyses of the ranks' traces of a loop that perfkit was attached to, and `fleet` who waits
    for whom among them: such a loop has nothing to be compared with, and its trace must say why it is slow.
    """

    facts: tuple[Facts, ...] = ()
    account: MemoryAccount | None = None
    step: StepTime | None = None
    traces: tuple[RankTrace, ...] = ()
    fleet: Fleet | None = None


def read_passes(runs: VariantRuns, ceilings: DeviceCeilings | None, derived: Iterable[str]) -> Passes:
    """Read what the main run's ranks left; what is not there stays empty.

    Args:
        runs: the variant's runs.
        ceilings: what its work is held against.
        derived: names of the facts to derive from the traces.
    """
    if runs.main is None:
        return Passes()
    accounts = [account for rank in runs.main.ranks if (account := rank_account(rank)) is not None]
    account = max(accounts, key=lambda account: account.peak_bytes, default=None)
    if runs.attached:
        return _attached(runs, ceilings, account)
    names = tuple(derived)
    facts: list[Facts] = []
    step = None
    for rank in runs.main.ranks:
        # Of the traces of many ranks the first tells the time; the others are read only for facts.
        ops = _ops(rank) if step is None or names else None
        facts.append({**rank.record.facts, **({} if ops is None else trace_facts(ops, names))})
        if step is None and ops is not None:
            counters = None if rank.counters is None else read_counters(rank.counters).columns(ops.trace, ops.kernels)
            step = step_time(ops, roofs_of(ceilings, rank.record.environment), counters)
    return Passes(tuple(facts), account, step)


def _attached(runs: VariantRuns, ceilings: DeviceCeilings | None, account: MemoryAccount | None) -> Passes:
    assert runs.main is not None
    traces, fleet = [], FleetReducer()
    for rank in runs.main.ranks:
        ops = _ops(rank)
        if ops is not None and len(ops.trace):
            trace = _trace(runs, rank.record, ops, ceilings)
            fleet.add(trace, arrivals(ops))
            traces.append(trace)
    facts = tuple(record.facts for record in runs.records)
    step = next((found for trace in traces if (found := of_trace(trace)) is not None), None)
    return Passes(facts, account, step, tuple(traces), fleet.result({each.reading.path: each.label for each in traces}))


def _trace(runs: VariantRuns, record: RankRecord, ops: Ops, ceilings: DeviceCeilings | None) -> RankTrace:
    environment = record.environment
    name = "" if environment is None else environment.device_name
    trace = analyse_ops(ops, _that_hold(ceilings, environment), device_name=name)
    label = runs.name if runs.world_size == 1 else f"{runs.name}, rank {record.rank}"
    return replace(trace, label=label, rank=record.rank, world_size=runs.world_size)


def _that_hold(ceilings: DeviceCeilings | None, environment: Environment | None) -> DeviceCeilings | None:
    """The ceilings of the device that the run used, on a CPU those for its number of threads."""
    if ceilings is None or environment is None or ceilings.device != environment.device:
        return None
    if environment.device != CPU:
        return ceilings
    threads = (None, environment.threads)
    return replace(ceilings, ceilings=tuple(each for each in ceilings.ceilings if each.threads in threads))


def _ops(rank: StoredRank) -> Ops | None:
    return None if rank.trace is None else read_ops(read_trace(rank.trace))
