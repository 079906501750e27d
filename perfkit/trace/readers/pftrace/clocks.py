"""Clocks of Perfetto's traces: the time of each packet on one clock, in nanoseconds.

Of protos/perfetto/trace/clock_snapshot.proto: numbers from 64 on are clocks of a sequence, which may count from packet
to packet. Clocks that no snapshot relates to another are taken for the same one.
"""

from dataclasses import dataclass, field

import numpy as np

from perfkit.trace.model import Ints
from perfkit.trace.readers.protobuf.wire import split_message

# Fields of ClockSnapshot and of its Clock.
_CLOCKS, _NUMBER, _TIME, _INCREMENTAL, _UNIT = 1, 1, 2, 3, 4
BOOT_CLOCK = 6
_FIRST_OF_SEQUENCE = 64
_OF_ALL = 0  # clocks of the system are the same in all sequences


@dataclass
class Clocks:
    """What snapshots state of clocks.

    `base_ns` is the time of the first snapshot on the clock that times are told on, None before there is one.
    """

    base_ns: int | None = None
    _ahead_ns: dict[tuple[int, int], int] = field(default_factory=dict)  # of the clock that times are told on
    _units_ns: dict[tuple[int, int], int] = field(default_factory=dict)
    _last: dict[tuple[int, int], int] = field(default_factory=dict)  # of clocks that count from packet to packet

    def add(self, raw: bytes, sequence: int) -> None:
        """Take a snapshot; of clocks of the system the first counts, of a sequence's the last."""
        try:
            clocks = [
                {key: part for key, _, part in split_message(value) if isinstance(part, int)}
                for number, _, value in split_message(raw)
                if number == _CLOCKS and isinstance(value, bytes)
            ]
        except ValueError:
            return
        shown = {clock.get(_NUMBER, 0): clock.get(_TIME, 0) * max(1, clock.get(_UNIT, 1)) for clock in clocks}
        boot = shown.get(BOOT_CLOCK)
        if boot is None:
            return
        if self.base_ns is None:
            self.base_ns = boot
        for clock in clocks:
            number = clock.get(_NUMBER, 0)
            key = (sequence if number >= _FIRST_OF_SEQUENCE else _OF_ALL, number)
            if number < _FIRST_OF_SEQUENCE and key in self._ahead_ns:
                continue
            self._units_ns[key] = max(1, clock.get(_UNIT, 1))
            self._ahead_ns[key] = boot - shown[number]
            if clock.get(_INCREMENTAL):
                self._last[key] = clock.get(_TIME, 0)

    def convert(self, time: Ints, number: Ints, sequence: Ints) -> Ints:
        """Times of packets, in their order, each on the clock of its number and sequence."""
        converted = np.array(time)
        of_sequence = np.where(number >= _FIRST_OF_SEQUENCE, sequence, _OF_ALL)
        for key in _list_pairs(of_sequence, number):
            its = np.flatnonzero((of_sequence == key[0]) & (number == key[1]))
            times = time[its]
            if key in self._last:
                times = np.cumsum(times) + self._last[key]
                self._last[key] = int(times[-1])
            converted[its] = times * self._units_ns.get(key, 1) + self._ahead_ns.get(key, 0)
        return converted


def _list_pairs(first: Ints, second: Ints) -> list[tuple[int, int]]:
    """The distinct pairs; of most parts of a trace there is one."""
    if len(first) and (first == first[0]).all() and (second == second[0]).all():
        return [(int(first[0]), int(second[0]))]
    return sorted({*zip(first.tolist(), second.tolist(), strict=True)})
