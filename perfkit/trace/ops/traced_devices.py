"""The devices of a trace, and what ran on each: a process may use several, and a file may hold several ranks."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.compact_ints import Compact, compact_ints
from perfkit.trace.match_ids import map_processes
from perfkit.trace.model import NONE, Ints, Trace
from perfkit.trace.ops.kernels import Kernels

Rows = Ints | slice
EVERYTHING = slice(None)


@dataclass(frozen=True)
class TracedDevices:
    """Devices in the order of their numbers, columns with a row each.

    Attributes:
        number: as recorded, NONE where it is not.
        process: the process that launched its work, as written; empty where one launched all.
        of: for each kernel the row of its device.
    """

    number: tuple[int, ...]
    process: tuple[str, ...]
    of: Compact

    def __len__(self) -> int:
        return len(self.number)

    def format_device(self, index: int) -> str:
        """`device 1`, with its process where several launched work."""
        process = f" of process {self.process[index]}" if self.process[index] else ""
        return f"device {self.number[index]}{process}"

    def share_process(self, kernels: Ints, others: Ints) -> NDArray[np.bool_]:
        """Mask pairs of kernels that one process launched."""
        codes = np.asarray([self.process.index(process) for process in self.process], np.int64)
        same: NDArray[np.bool_] = codes[self.of[kernels]] == codes[self.of[others]]
        return same

    @cached_property
    def rows(self) -> tuple[Rows, ...]:
        """For each device, the rows of its kernels."""
        if len(self) == 1:
            return (EVERYTHING,)
        return tuple(np.flatnonzero(self.of == index) for index in range(len(self)))


def find_traced_devices(trace: Trace, kernels: Kernels) -> TracedDevices:
    """Tell devices apart by number and, in a file of several ranks that each number theirs from 0, by process.

    Work of one number and of several processes is of one device, unless these also wrote it as that of several.
    """
    number = trace.device[kernels.event]
    writer = map_processes(trace)[trace.thread[kernels.event]].astype(np.int64)
    low = int(number.min(initial=0))
    code = (number - low) * (int(writer.max(initial=0)) + 1) + writer  # `number` is compact, `writer` is wide
    places, first, of = np.unique(code, return_index=True, return_inverse=True)
    if len(places) <= 1:
        return TracedDevices((int(number[0]),) if len(number) else (), ("",) * len(places), np.zeros(len(of), np.int8))
    launcher = _find_launchers(trace, kernels, of, len(places))
    its_number = number[first].astype(np.int64)
    for shared in np.unique(its_number).tolist():  # work without a launch is of the one process that is known
        same = its_number == shared
        known = np.unique(launcher[same & (launcher != NONE)])
        if len(known) == 1:
            launcher[same] = known[0]
    devices, of_place = np.unique(np.stack([its_number, launcher]), axis=1, return_inverse=True)
    names = {int(number): process for number, (process, _) in zip(map_processes(trace), trace.threads, strict=True)}
    several = len(np.unique(devices[1])) > 1
    return TracedDevices(
        number=tuple(devices[0].tolist()),
        process=tuple(names.get(index, "") if several else "" for index in devices[1].tolist()),
        of=compact_ints(of_place.ravel()[of]),
    )


def _find_launchers(trace: Trace, kernels: Kernels, of: Ints, places: int) -> Ints:
    """The process that launched most of the work of each place, NONE without a known launch."""
    known = kernels.launch != NONE
    process = map_processes(trace)[trace.thread[kernels.launch[known]]].astype(np.int64)
    count = int(process.max(initial=0)) + 1
    table = np.bincount(of[known] * count + process, minlength=places * count).reshape(places, count)
    return np.where(table.any(axis=1), table.argmax(axis=1), NONE)
