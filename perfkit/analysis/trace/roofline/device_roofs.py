"""The roofs of each device of a trace: devices of one kind share theirs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.trace.compact_ints import Compact


@dataclass(frozen=True)
class DeviceRoofs:
    """The distinct `kinds`, that of the critical device first, and for each device the number of its own.

    `of` is empty where all devices are of the one kind.
    """

    kinds: tuple[Roofs, ...]
    of: tuple[int, ...] = ()

    def find_kinds(self, device: Compact) -> Compact:
        """The number of the kind of some devices."""
        return np.asarray(self.of, np.int8)[device] if self.of else np.zeros(len(device), np.int8)

    def get_roofs(self, device: int) -> Roofs:
        return self.kinds[self.of[device] if self.of else 0]


def combine_roofs(roofs: Sequence[Roofs], critical: int) -> DeviceRoofs:
    """Number the kinds of devices, given the roofs of each and the `critical` one."""
    kinds: list[Roofs] = []
    for one in (roofs[critical], *roofs):
        if one not in kinds:
            kinds.append(one)
    return DeviceRoofs(tuple(kinds), tuple(kinds.index(one) for one in roofs) if len(kinds) > 1 else ())
