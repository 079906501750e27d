"""The account of a rank's memory pass."""

from dataclasses import replace

from perfkit.allocations import Allocations
from perfkit.analysis.memory.account import account
from perfkit.analysis.memory.beyond import outside_of
from perfkit.analysis.memory.with_history import with_history
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.store.memory_file import read_allocations
from perfkit.store.read import StoredRank
from perfkit.trace.memory.snapshot import read_snapshot


def rank_account(rank: StoredRank) -> MemoryAccount | None:
    """The account of a rank's memory pass; None where it left none.

    Raises `PerfkitError` for a file that is truncated or none of perfkit's.
    """
    if rank.memory is None:
        return None
    recorded = read_allocations(rank.memory)
    if rank.history is not None:
        recorded = _with_history(recorded, read_snapshot(rank.history).allocations)
    record = rank.record
    if record.world_size > 1:
        recorded = replace(
            recorded, source=f"{recorded.source}; rank {record.rank} of {record.world_size}, the fullest"
        )
    return account(recorded, outside_of(record))


def _with_history(recorded: Allocations, histories: tuple[Allocations, ...]) -> Allocations:
    mine = next((history for history in histories if history.device == recorded.device), None)
    return recorded if mine is None else with_history(recorded, mine)
