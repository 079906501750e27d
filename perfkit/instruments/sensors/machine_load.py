"""Measures the machine's other load during a measurement.

Two readings of the kernel's own counters, at the beginning and the end: nothing runs between them.

Sources: proc(5) for `stat` of the machine and of a process, Documentation/accounting/psi.rst for `pressure`,
Documentation/admin-guide/cgroup-v2.rst (and scheduler/sched-bwc.rst for the first version) for `cpu.stat`.
"""

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from perfkit.core.record.environment import MachineLoad
from perfkit.devices.machine.machine import list_usable_cpus

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

# Columns of a `cpu` line of /proc/stat. A guest's time is within `user` and `nice`.
_WORKING = (0, 1, 2, 5, 6)  # user, nice, system, irq, softirq
_STOLEN = 7
_COUNTED = 8  # with idle and iowait
# Of /proc/PID/stat behind the name, which may hold anything: the parent, and the CPU time of the process and of those
# of its children that have ended and been waited for (utime, stime, cutime, cstime).
_PARENT, _TIMES = 1, slice(11, 15)


class LoadReading(NamedTuple):
    """Cumulative counters, in seconds; None where the system does not report them.

    `cores` are those that this process may use, `worked_s` and `stolen_s` are summed over them; `counted_s` with their
    idle time. `own_s` is the CPU time of this process and its descendants, those that have ended included.
    """

    time_s: float
    cores: int
    counted_s: float | None
    worked_s: float | None
    stolen_s: float | None
    own_s: float | None
    waited_s: float | None
    periods: tuple[int, int] | None  # of the container's limit: all, and those in which it stopped tasks


def read_load(
    proc: Path = PROC, cgroup: Path = CGROUP, *, root: int | None = None, cpus: Iterable[int] | None = None
) -> LoadReading:
    """Read the counters now: a few milliseconds, growing with the number of processes on the machine.

    `root` is the process that counts as own with all that it started: this one by default.
    """
    usable = list_usable_cpus() if cpus is None else tuple(cpus)
    cores = _parse_cores(_read_text(proc / "stat"), usable)
    sums = [sum(times) / _TICKS_PER_S for times in zip(*cores, strict=True)] if cores else None
    return LoadReading(
        time_s=time.monotonic(),
        cores=len(cores) or len(usable),
        counted_s=None if sums is None else sum(sums),
        worked_s=None if sums is None else sum(sums[column] for column in _WORKING),
        stolen_s=None if sums is None else sums[_STOLEN],
        own_s=_read_own_s(proc, os.getpid() if root is None else root),
        waited_s=_parse_waited_s(_read_text(proc / "pressure" / "cpu")),
        periods=_read_periods(cgroup),
    )


def compute_load(start: LoadReading, end: LoadReading) -> MachineLoad:
    """The load between two readings of one process, the first of them earlier."""
    seconds = end.time_s - start.time_s
    counted = _subtract_counts(start.counted_s, end.counted_s)
    # Some sandboxes offer the file and count nothing in it.
    known = seconds > 0 and counted is not None and counted > 0
    worked = _compute_rate(start.worked_s, end.worked_s, seconds) if known else None
    own = _compute_rate(start.own_s, end.own_s, seconds)
    return MachineLoad(
        seconds=seconds,
        cores=end.cores,
        own_cores=own,
        other_cores=None if worked is None or own is None else max(0.0, worked - own),
        stolen_cores=_compute_rate(start.stolen_s, end.stolen_s, seconds) if known else None,
        waiting_share=_compute_rate(start.waited_s, end.waited_s, seconds),
        throttled_share=_compute_throttled_share(start.periods, end.periods),
    )


def _subtract_counts(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else max(0.0, end - start)


def _compute_rate(start: float | None, end: float | None, seconds: float) -> float | None:
    more = _subtract_counts(start, end)
    return None if more is None or seconds <= 0 else more / seconds


def _compute_throttled_share(start: tuple[int, int] | None, end: tuple[int, int] | None) -> float | None:
    if start is None or end is None or end[0] <= start[0]:
        return None
    return (end[1] - start[1]) / (end[0] - start[0])


def _parse_cores(stat: str, usable: tuple[int, ...]) -> list[list[int]]:
    """The times of each core that may be used; of all that are listed where those have other numbers here."""
    lines = re.findall(r"^cpu(\d+) (.*)$", stat, re.MULTILINE)
    listed = {int(number): [int(time) for time in times.split()[:_COUNTED]] for number, times in lines}
    complete = {number: times for number, times in listed.items() if len(times) == _COUNTED}
    own = [complete[number] for number in usable if number in complete]
    return own if len(own) == len(usable) else list(complete.values())


def _read_own_s(proc: Path, root: int) -> float | None:
    """CPU seconds of a process, of its children that have ended, and of all its descendants that run."""
    stats = {}
    for folder in proc.glob("[0-9]*"):
        fields = _read_text(folder / "stat").rpartition(")")[2].split()
        if len(fields) >= _TIMES.stop:  # else it has ended
            stats[int(folder.name)] = (int(fields[_PARENT]), sum(map(int, fields[_TIMES])))
    if root not in stats:
        return None
    children: dict[int, list[int]] = {}
    for process, (parent, _) in stats.items():
        children.setdefault(parent, []).append(process)
    ticks, pending = 0, [root]
    while pending:
        process = pending.pop()
        ticks += stats[process][1]
        pending += children.get(process, ())
    return ticks / _TICKS_PER_S


def _parse_waited_s(pressure: str) -> float | None:
    match = re.search(r"^some .*total=(\d+)", pressure, re.MULTILINE)
    return int(match[1]) / 1e6 if match else None


def _read_periods(cgroup: Path) -> tuple[int, int] | None:
    """Of this container's group; None where it has no limit."""
    text = _read_text(cgroup / "cpu.stat") or _read_text(cgroup / "cpu" / "cpu.stat")
    counts = dict(re.findall(r"^(nr_periods|nr_throttled) (\d+)$", text, re.MULTILINE))
    return (int(counts["nr_periods"]), int(counts["nr_throttled"])) if len(counts) == 2 else None


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
