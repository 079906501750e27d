"""Analyzes one memory recording for `perfkit memory`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import perfkit
from perfkit.analysis.findings.order import sort_findings
from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.model.estimate import Provenance
from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.pipeline.memory_findings import collect_memory_findings
from perfkit.core.allocations import Allocations
from perfkit.core.errors import RunFormatError
from perfkit.core.note import list_texts
from perfkit.core.texts.redact import redact_text
from perfkit.trace.memory.read_memory import read_memory
from perfkit.trace.readers.trace_sources import derive_trace_name


def analyze_memory(path: str | Path, *, command: str = "") -> MemoryAnalysis:
    """Analyze an allocator snapshot, a memory timeline or a trace with memory events, recognized by content.

    Args:
        path: of the file.
        command: the command line, for the report.

    `RunFormatError` names a file that cannot be read, has another format, or contains no allocation.
    """
    read = read_memory(path)
    pairs = [
        (allocations, accounted)
        for allocations in read.allocations
        if (accounted := build_memory_account(allocations)) is not None
    ]
    if not pairs:
        remarks = f" ({'; '.join(list_texts(read.notes))})" if read.notes else ""
        raise RunFormatError(f"{path}: {read.kind} without allocations{remarks}: nothing to analyze")
    accounts = tuple(accounted for _, accounted in pairs)
    return MemoryAnalysis(
        title=derive_trace_name(str(path)),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        file=redact_text(str(path)),
        kind=read.kind,
        accounts=accounts,
        findings=sort_findings(
            (0, finding)
            for accounted in accounts
            for finding in collect_memory_findings(
                accounted, variant=_get_finding_device(accounted, accounts), trains=read.trains
            )
        ),
        provenance=_list_provenance(read.kind, [allocations for allocations, _ in pairs], accounts),
        notes=read.notes,
    )


def _get_finding_device(accounted: MemoryAccount, accounts: Sequence[MemoryAccount]) -> str:
    """The device of a finding, where there are several."""
    return accounted.device if len(accounts) > 1 else ""


def _list_provenance(
    kind: str, recorded: Sequence[Allocations], accounts: Sequence[MemoryAccount]
) -> tuple[Provenance, ...]:
    events = sum(len(allocations) for allocations in recorded)
    entries = [
        Provenance(figure="allocation events", how="recorded", detail=f"{events:,}, from {kind}"),
        Provenance(figure="peak", how="derived", detail="replayed allocations and frees, every byte counted once"),
        Provenance(
            figure="categories",
            how="derived",
            detail=(
                "from the block's record in the file, the op, module and line that allocated it, and the phases of its "
                "allocation and free; otherwise unknown"
            ),
        ),
    ]
    if any(accounted.fragmentation is not None for accounted in accounts):
        entries.append(
            Provenance(figure="reserved bytes", how="recorded", detail="as recorded by the caching allocator")
        )
    return tuple(entries)
