"""Results of reading dumps of torch's flight recorder."""

from typing import ClassVar

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.estimate import Provenance
from perfkit.analysis.model.finding import Finding
from perfkit.core.note import Note
from perfkit.core.spec import Struct
from perfkit.flight.flight_record import RecordedCollective
from perfkit.flight.mismatch import MismatchedCollective

FLIGHT_ANALYSIS_VERSION = 5


class DumpedRank(Struct):
    """One rank: the number of collectives in its dump (`dropped`: the ring buffer lost older ones), the number of
    unfinished ones, the first of them, and the last one entered, with the names of their groups."""

    rank: int
    file: str
    version: str
    collectives: int
    dropped: bool
    unfinished: int
    pending_collective: RecordedCollective | None
    last_collective: RecordedCollective | None
    group: str  # of the collective that it waits in, else of the last one


class FlightAnalysis(DisplayMixin, Struct):
    """Everything a report on dumps of flight recorders shows. `mismatched_collectives` are those that did not come
    about.
    """

    subject: ClassVar[str] = "flight"
    schema_version: int = FLIGHT_ANALYSIS_VERSION
    title: str
    created_at: str
    perfkit: str
    command: str
    ranks: tuple[DumpedRank, ...]
    mismatched_collectives: tuple[MismatchedCollective, ...]
    findings: tuple[Finding, ...]
    provenance: tuple[Provenance, ...]
    warnings: tuple[Note, ...] = ()
