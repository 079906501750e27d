"""Holders of memory accounts in reports: a suite's variants, a file's devices, traces."""

from collections.abc import Sequence
from dataclasses import dataclass

from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.trace import RankTrace
from perfkit_reports.palette import Fill, Style, build_legend


@dataclass(frozen=True)
class Holder:
    """A name, unique in its report, and its account."""

    name: str
    account: MemoryAccount
    style: Style | None = None


def list_device_holders(accounts: Sequence[MemoryAccount]) -> list[Holder]:
    """One per device; devices of the same name are numbered."""
    names = [account.device or "memory" for account in accounts]
    return [
        Holder(name if names.count(name) == 1 else f"{name} ({names[:place].count(name) + 1})", account)
        for place, (name, account) in enumerate(zip(names, accounts, strict=True))
    ]


def list_trace_holders(traces: Sequence[RankTrace]) -> list[Holder]:
    """Traces with recorded memory, named by their labels."""
    return [Holder(trace.label, trace.memory) for trace in traces if trace.memory is not None]


def list_peak_categories(holders: Sequence[Holder]) -> list[tuple[str, Fill]]:
    """(category, fill) of all peaks, in stacking order."""
    return build_legend([[part.category for part in holder.account.categories] for holder in holders])


def list_timeline_categories(account: MemoryAccount) -> list[tuple[str, Fill]]:
    """(category, fill) of a timeline, without empty categories."""
    return build_legend([[name for name, amounts in account.timeline_categories.items() if any(amounts)]])
