"""Results of a replay: how well it reproduces a recording, and what a change would gain."""

from perfkit.spec import Struct


class Replay(Struct):
    """A recording replayed unmodified.

    `error` is `replayed_s / recorded_s - 1`. `refused` is why no gain is simulated, empty where gains are. `busy` is
    the device's share of the time. `critical_path` are seconds by kind of work, which sum to `replayed_s`.
    """

    recorded_s: float
    replayed_s: float
    error: float
    nodes: int
    busy: float
    refused: str
    critical_path: dict[str, float]


class Simulated(Struct):
    """What a change would gain of the whole recording; None where `refused` says why not.

    `summed_s` is what its kernels would take less, added up: an upper bound. None where there is no such sum.
    """

    what: str
    gain_s: float | None
    share: float | None
    summed_s: float | None
    refused: str
    critical_path: dict[str, float]
