"""What the traces of several ranks of one job tell of each other."""

from perfkit.spec import Struct


class RankRow(Struct):
    """A rank among the others. `late_s` is how much later than the first rank it comes to collectives, per step."""

    label: str
    rank: int | None
    step_s: float
    compute_s: float
    communication_s: float
    exposed_communication_s: float
    idle_s: float
    late_s: float | None
    clock_offset_s: float | None


class SkewRow(Struct):
    """Collectives of one kind over all ranks, per step: `wait_s` is the mean time ranks waited for the last one.

    `worst_wait_s` is the longest wait of a rank at one of them, `latest_rank` the one that was waited for most, and
    `latest_share` the share of them to which it came last.
    """

    name: str
    group: str
    calls: float
    wait_s: float
    worst_wait_s: float
    latest_rank: str
    latest_share: float


class Fleet(Struct):
    """Several ranks of one job: who is late, and by how much. `notes` name ranks that are missing or differ."""

    ranks: tuple[RankRow, ...]
    skew: tuple[SkewRow, ...]
    straggler: str
    step_spread: float | None
    notes: tuple[str, ...] = ()
