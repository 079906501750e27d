"""What the instrumented passes of a variant showed: its facts, its memory, and where its time went."""

from collections.abc import Iterable
from dataclasses import dataclass

from perfkit.analysis.facts import trace_facts
from perfkit.analysis.memory.rank import rank_account
from perfkit.analysis.result import MemoryAccount
from perfkit.analysis.roofs import roofs_of
from perfkit.analysis.runs import VariantRuns
from perfkit.analysis.step_time import StepTime, step_time
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.store.read import StoredRank
from perfkit.trace.counters.match import read_counters
from perfkit.trace.ops import Ops, read_ops
from perfkit.trace.read import read_trace


@dataclass(frozen=True)
class Passes:
    """Facts of every rank, recorded and derived; the account of the fullest rank; the step of the first rank traced."""

    facts: tuple[dict[str, float], ...] = ()
    account: MemoryAccount | None = None
    step: StepTime | None = None


def read_passes(runs: VariantRuns, ceilings: DeviceCeilings | None, derived: Iterable[str]) -> Passes:
    """Read what the main run's ranks left; what is not there stays empty.

    Args:
        runs: the variant's runs.
        ceilings: what its work is held against.
        derived: names of the facts to derive from the traces.
    """
    if runs.main is None:
        return Passes()
    names = tuple(derived)
    facts, step = [], None
    for rank in runs.main.ranks:
        # Of the traces of many ranks the first tells the time; the others are read only for facts.
        ops = _ops(rank) if step is None or names else None
        facts.append({**rank.record.facts, **({} if ops is None else trace_facts(ops, names))})
        if step is None and ops is not None:
            counters = None if rank.counters is None else read_counters(rank.counters).columns(ops.trace, ops.kernels)
            step = step_time(ops, roofs_of(ceilings, rank.record.environment), counters)
    accounts = [account for rank in runs.main.ranks if (account := rank_account(rank)) is not None]
    return Passes(tuple(facts), max(accounts, key=lambda account: account.peak_bytes, default=None), step)


def _ops(rank: StoredRank) -> Ops | None:
    return None if rank.trace is None else read_ops(read_trace(rank.trace))
