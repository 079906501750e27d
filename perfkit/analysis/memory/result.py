"""What `perfkit memory` yields of one file: data for renderers and exports."""

from perfkit.analysis.result import ANALYSIS_VERSION, Finding, MemoryAccount, Provenance
from perfkit.spec import Struct


class MemoryAnalysis(Struct):
    """Everything a memory report shows. `kind` is what the file is, in words; one account per device."""

    schema_version: int = ANALYSIS_VERSION
    title: str
    created_at: str
    perfkit: str
    command: str
    file: str
    kind: str
    accounts: tuple[MemoryAccount, ...]
    findings: tuple[Finding, ...] = ()
    provenance: tuple[Provenance, ...] = ()
    notes: tuple[str, ...] = ()
