"""A rank while others are read: its figures, and the place of its collectives in a file."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.compare.rank_environments import describe_traced_rank
from perfkit.analysis.model.fleet import RankRow
from perfkit.analysis.model.time_split import (
    COMPUTE_BOUND,
    DATA,
    IDLE,
    LATENCY_BOUND,
    MEMORY_BOUND,
    PYTHON,
    UNPLACED,
)
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.ranks.arrivals import Arrivals
from perfkit.analysis.ranks.exchanges import Exchange
from perfkit.analysis.ranks.jobs import TraceOrigin
from perfkit.analysis.trace.collective_rows import MessageKey

_COMPUTING = (COMPUTE_BOUND, MEMORY_BOUND, *UNPLACED, LATENCY_BOUND)
_IDLE = (DATA, PYTHON, *IDLE)


class FleetMember(NamedTuple):
    """A rank while others are read: its figures, and the place of its collectives in the temporary file, of `length`
    collectives from value `first` on. `clock` names the clock of these, "" where it is not known: devices have clocks
    of their own."""

    row: RankRow
    path: str
    world_size: int | None
    steps: int
    unlike: tuple[int, ...]
    step_s: dict[int, float]
    host: str
    clock: str
    hosts_by_message: tuple[tuple[MessageKey, str], ...]
    exchanges: tuple[Exchange, ...]
    origin: TraceOrigin
    length: int
    first: int = 0
    environment: Mapping[str, str] = {}

    @property
    def order(self) -> tuple[bool, int, str, str]:
        number = self.row.rank
        return number is None, number or 0, self.row.label, self.path


def build_member(rank: RankTrace, arrivals: Arrivals) -> FleetMember:
    """The member for a trace, whose collectives have no place yet."""
    origin = arrivals.origin or TraceOrigin(rank.file_info.path, rank.rank, "", 0, 0)
    return FleetMember(
        row=_build_rank_row(rank),
        path=rank.file_info.path,
        world_size=rank.world_size,
        steps=len(rank.steps),
        unlike=(*(step.number for step in rank.outlier_steps), *rank.unrecorded_steps),
        step_s={step.number: step.seconds for step in rank.steps},
        host=rank.host,
        clock=rank.host if arrivals.kernel is None and origin.has_date else "",
        hosts_by_message=tuple(
            ((row.name, row.group, row.dtype, row.message_bytes), row.hosts) for row in rank.collectives if row.hosts
        ),
        exchanges=arrivals.exchanges,
        origin=origin._replace(rank=rank.rank),
        length=len(arrivals),
        environment=describe_traced_rank(rank),
    )


def rename_member(member: FleetMember, labels: Mapping[str, str]) -> FleetMember:
    label = labels.get(member.path, member.row.label)
    return member if label == member.row.label else member._replace(row=replace(member.row, label=label))


def _build_rank_row(rank: RankTrace) -> RankRow:
    def seconds(categories: Iterable[str]) -> float:
        return sum(part.seconds for part in rank.time_split if part.category in categories)

    return RankRow(
        label=rank.label,
        rank=rank.rank,
        step_s=rank.step_s,
        compute_s=seconds(_COMPUTING),
        communication_s=rank.overlap.communication_s,
        exposed_communication_s=rank.overlap.exposed_communication_s,
        idle_s=seconds(_IDLE),
        late_s=None,
        clock_offset_s=None,
    )
