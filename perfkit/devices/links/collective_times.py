"""Times that the ranks of a calibration of the links report; without torch, for those who only read it."""

from perfkit.spec import Struct

BACKENDS = {"cpu": "gloo", "cuda": "nccl"}


class CollectiveTimes(Struct):
    """What a message of so many bytes took at best, in each repeat."""

    collective: str
    bytes: int
    repeats_s: tuple[float, ...]
