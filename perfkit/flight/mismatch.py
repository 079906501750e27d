"""A mismatched collective: its kind, and the call of each rank."""

from enum import StrEnum

from perfkit.core.spec import Struct
from perfkit.flight.flight_record import ProcessGroup, RecordedCollective


class Mismatch(StrEnum):
    """The kinds of mismatch, the plainest first."""

    ORDER = "order differs"
    SIZES = "shapes differ"
    DTYPES = "dtypes differ"
    CROSSED = "ranks wait for each other"
    ABSENT = "not entered by all"
    UNFINISHED = "entered by all, not finished by all"


DIFFERING = (Mismatch.ORDER, Mismatch.SIZES, Mismatch.DTYPES)


class MismatchedCollective(Struct):
    """A mismatched collective, with the call of each rank.

    `calls` has the ranks that entered it or, for an unanswered message, the rank that waits. `absent` ranks have a
    record and did not enter it; `unrecorded` ranks of the group have no record: their state is unknown. `blocked_by` is
    the place of the mismatch that holds it up; None if nothing does. `crossed` is, of ranks that wait for each other,
    the name of the collective that each waits in.
    """

    mismatch: Mismatch
    group: ProcessGroup
    sequence: int
    calls: dict[int, RecordedCollective]
    absent: tuple[int, ...] = ()
    unrecorded: tuple[int, ...] = ()
    blocked_by: int | None = None
    crossed: dict[int, str] = {}

    @property
    def waiting(self) -> tuple[int, ...]:
        """Ranks that entered it and have not finished."""
        return tuple(rank for rank, call in self.calls.items() if not call.finished)

    @property
    def name(self) -> str:
        """`all_reduce 12 of default_pg`, by the call of the first rank that waits in it."""
        call = self.calls[next(iter(self.waiting or tuple(self.calls)))]
        return f"{call.op} {self.sequence} of {self.group.label}"
