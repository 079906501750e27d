"""Everything that a report on traces shows."""

from typing import ClassVar

from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.estimate import Provenance
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.fleet import Fleet
from perfkit.analysis.model.trace import RankTrace
from perfkit.core.note import Note
from perfkit.core.spec import Struct

TRACE_ANALYSIS_VERSION = 8

# Of a large job every rank keeps its figures, but only the first few keep every row of their tables: a few
# thousand rows each would otherwise add up to gigabytes over hundreds of ranks.
WHOLE_RANKS = 8

# Of more traces, only a few chosen ones are analyzed in full, the others just for the comparison of ranks.
MOST_FULL = 16


class TraceAnalysis(DisplayMixin, Struct):
    """A report on traces. Labels of traces, including that of `difference`, are unique.

    `fleet` has the ranks of the job with most; `other_fleets` those of other jobs among the traces. Of more than
    `MOST_FULL` files, `traces` has a few (see `perfkit.analysis.pipeline.many_traces`), while `files_digest` and
    `file_count` are of all; where `traces` has all, they are empty and 0.
    """

    subject: ClassVar[str] = "trace"
    schema_version: int = TRACE_ANALYSIS_VERSION
    title: str
    created_at: str
    perfkit: str
    command: str
    traces: tuple[RankTrace, ...]
    fleet: Fleet | None = None
    other_fleets: tuple[Fleet, ...] = ()
    difference: TraceDifference | None = None
    findings: tuple[Finding, ...]
    provenance: tuple[Provenance, ...]
    warnings: tuple[Note, ...] = ()
    files_digest: str = ""
    file_count: int = 0

    @property
    def fleets(self) -> tuple[Fleet, ...]:
        """The ranks of each job."""
        return (() if self.fleet is None else (self.fleet,)) + self.other_fleets
