"""Everything that a report on one file of `perfkit memory` shows: data for renderers and exports."""

from typing import ClassVar

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.estimate import Provenance
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.suite import ANALYSIS_VERSION
from perfkit.core.note import Note
from perfkit.core.spec import Struct


class MemoryAnalysis(DisplayMixin, Struct):
    """A memory report. `kind` describes the file; one account per device."""

    subject: ClassVar[str] = "memory"
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
    notes: tuple[Note, ...] = ()
