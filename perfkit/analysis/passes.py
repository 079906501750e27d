"""What the instrumented passes of a variant showed: its facts, its memory, and where its time went."""

from dataclasses import dataclass

from perfkit.analysis.allocations import rank_account
from perfkit.analysis.result import MemoryAccount, OpRow, RooflinePoint, TimeShare
from perfkit.analysis.runs import VariantRuns
from perfkit.devices.ceiling import DeviceCeilings


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Facts of every rank, recorded and derived; the account of the fullest rank; the time of rank 0."""

    facts: tuple[dict[str, float], ...] = ()
    account: MemoryAccount | None = None
    time_split: tuple[TimeShare, ...] = ()
    traced_step_s: float | None = None
    modelled_share: float | None = None
    points: tuple[RooflinePoint, ...] = ()
    ops: tuple[OpRow, ...] = ()
    warnings: tuple[str, ...] = ()


def read_passes(runs: VariantRuns, ceilings: DeviceCeilings | None) -> Passes:
    """Read what the main run's ranks left; what is not there stays empty."""
    if runs.main is None:
        return Passes()
    accounts = [account for rank in runs.main.ranks if (account := rank_account(rank)) is not None]
    return Passes(
        facts=tuple(dict(rank.record.facts) for rank in runs.main.ranks),
        account=max(accounts, key=lambda account: account.peak_bytes, default=None),
    )
