"""Times that the ranks of a calibration of the links report; without torch, for those who only read it."""

from perfkit.core.spec import Struct


class CollectiveTimes(Struct):
    """Minimum time of a collective for one message size, per repeat."""

    collective: str
    bytes: int
    repeats_s: tuple[float, ...]
