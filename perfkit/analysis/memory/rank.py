"""The account of a rank's memory pass."""

from dataclasses import replace

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.memory.history_join import join_history
from perfkit.analysis.memory.process_memory import build_process_balance
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core.allocations import Allocations
from perfkit.store.memory_file import read_allocations
from perfkit.store.suite_reader import StoredRank
from perfkit.trace.memory.snapshot import read_snapshot


def read_rank_account(rank: StoredRank) -> MemoryAccount | None:
    """The account of a rank's memory pass; None where it left none.

    Raises `PerfkitError` for a file that is truncated or not perfkit's.
    """
    if rank.memory is None:
        return None
    recorded = read_allocations(rank.memory)
    if rank.history is not None:
        recorded = _join_matching_history(recorded, read_snapshot(rank.history).allocations)
    record = rank.record
    if record.world_size > 1:
        recorded = replace(
            recorded, source=f"{recorded.source}; rank {record.rank} of {record.world_size}, the highest peak"
        )
    return build_memory_account(recorded, build_process_balance(record))


def _join_matching_history(recorded: Allocations, histories: tuple[Allocations, ...]) -> Allocations:
    mine = next((history for history in histories if history.device == recorded.device), None)
    return recorded if mine is None else join_history(recorded, mine)
