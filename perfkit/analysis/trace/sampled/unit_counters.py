"""What sampled counters say of a GPU's units and memory: by phase, and by kernels that are longer than the interval.

A sample is the mean of a unit's activity, in per cent of its peak, from its time on until the next one. Bytes are that
share of the datasheet's bandwidth over this time.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.launches import UnitCounters
from perfkit.analysis.trace.work.work_items import WorkItems
from perfkit.core.record.trace_marks import PHASES
from perfkit.devices.ceilings.ceiling import CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.trace.counters.match_counters import CounterColumns
from perfkit.trace.model import NONE, Category, CounterSamples, Ints

Floats = NDArray[np.float64]

# Counters by what they measure: as torch's monitor writes them (`_PM_METRIC_LABELS` of torch/profiler/_cupti), as CUPTI
# names them, and as Nsight Systems' GPU metrics do. All are in per cent of the peak.
_ACTIVE, _TENSOR, _READ, _WRITE, _MEMORY = range(5)
_SHARE = r"\.avg\.pct_of_peak"
_TRACKS = (
    (_ACTIVE, re.compile(rf"SM Active \(%\)|SMs Active \[Throughput %\]|sm__cycles_active{_SHARE}")),
    (_TENSOR, re.compile(rf"Tensor Active|sm__(pipe_tensor_cycles_active|inst_executed_pipe_tensor\w*){_SHARE}")),
    (_READ, re.compile(rf"HBM Read \(%\)|DRAM Read (Throughput|Bandwidth)|dram__read_throughput{_SHARE}")),
    (_WRITE, re.compile(rf"HBM Write \(%\)|DRAM Write (Throughput|Bandwidth)|dram__write_throughput{_SHARE}")),
    (_MEMORY, re.compile(rf"(DRAM|HBM) BW \(%\)|(gpu__dram|dram_)_throughput{_SHARE}")),
)
# A kernel has a figure of its own from so many whole samples on.
_LEAST_SAMPLES = 2


class UnitSamples(NamedTuple):
    """Samples of one device, all units at the same times: shares of the peak, NaN where a unit was not sampled.

    `memory` are both directions together; `interval_ns` is the time that a sample stands for.
    """

    device: int
    time_ns: Ints
    interval_ns: int
    active: Floats
    tensor: Floats
    memory: Floats


def read_unit_samples(samples: CounterSamples) -> tuple[UnitSamples, ...]:
    """The samples of each device that has some of its units or memory."""
    quantity = np.asarray([_find_quantity(name) for name in samples.names] or [NONE], np.int64)
    of_sample = quantity[samples.counter] if len(samples) else np.empty(0, np.int64)
    devices = np.unique(samples.device[(of_sample != NONE) & (samples.device != NONE)])
    return tuple(_read_device(samples, of_sample, device) for device in devices.tolist())


def _find_quantity(name: str) -> int:
    return next((quantity for quantity, pattern in _TRACKS if pattern.match(name)), NONE)


def _read_device(samples: CounterSamples, of_sample: Ints, device: int) -> UnitSamples:
    mine = (samples.device == device) & (of_sample != NONE)
    times = np.unique(samples.time_ns[mine])
    columns = np.full((len(_TRACKS), len(times)), np.nan)
    columns[of_sample[mine], np.searchsorted(times, samples.time_ns[mine])] = samples.value[mine] / 100
    both = columns[_READ] + columns[_WRITE]
    return UnitSamples(
        device=device,
        time_ns=times,
        interval_ns=int(np.median(np.diff(times))) if len(times) > 1 else 0,
        active=columns[_ACTIVE],
        tensor=columns[_TENSOR],
        memory=np.where(np.isnan(both), columns[_MEMORY], both),
    )


def find_memory_peak(ceilings: DeviceCeilings | None) -> float | None:
    """The datasheet's bandwidth of device memory in B/s, which the counters' per cent refer to; None if unknown."""
    ceiling = None if ceilings is None else ceilings.find(CeilingLevel.MEMORY, kind=CeilingKind.DATASHEET)
    return None if ceiling is None else ceiling.value


def build_unit_counters(
    work: WorkItems, modeled: Floats, units: tuple[UnitSamples, ...], peak: float | None, parts: int
) -> tuple[UnitCounters, ...]:
    """A row for each phase, and for each name of kernels that are longer than two intervals, the longest first.

    Only samples in kernels of steps count; a sample is of the kernel that started last before it. `modeled` are the
    bytes of `work` by formula, NaN where they are unknown; bytes are per step, of which there are `parts`.
    """
    timed = [its for its in units if its.interval_ns]
    if not work.on_device or not parts or not timed:
        return ()
    within = (work.step != NONE) & (work.ops.trace.category[work.event] == Category.KERNEL)
    samples = _concatenate([_take_working(work, within, its) for its in timed])
    return (
        *_list_phases(work, within, modeled, samples, peak, parts),
        *_list_kernels(work, within, modeled, samples, build_sampled_columns(work, units, peak), parts),
    )


class _WorkingSamples(NamedTuple):
    """Samples taken while a kernel of a step ran: its row in the work, the time that each stands for, the shares."""

    row: Ints
    seconds: Floats
    active: Floats
    tensor: Floats
    memory: Floats


def _take_working(work: WorkItems, within: NDArray[np.bool_], its: UnitSamples) -> _WorkingSamples:
    row = _find_running(work, its)
    chosen = (row != NONE) & within[row]
    seconds = np.full(int(chosen.sum()), its.interval_ns / 1e9)
    return _WorkingSamples(row[chosen], seconds, its.active[chosen], its.tensor[chosen], its.memory[chosen])


def _concatenate(devices: list[_WorkingSamples]) -> _WorkingSamples:
    return _WorkingSamples(*(np.concatenate(columns) for columns in zip(*devices, strict=True)))


def _list_phases(
    work: WorkItems,
    within: NDArray[np.bool_],
    modeled: Floats,
    samples: _WorkingSamples,
    peak: float | None,
    parts: int,
) -> Iterator[UnitCounters]:
    for number, name in [*enumerate(PHASES), (NONE, "")]:
        mine = work.phase[samples.row] == number
        if not mine.any():
            continue
        memory = samples.memory[mine]
        moved = (
            None if peak is None or np.isnan(memory).all() else float(np.nansum(memory * samples.seconds[mine])) * peak
        )
        its_bytes = modeled[within & (work.phase == number)]
        yield _build_row("phase", name, samples, mine, parts, moved, float(its_bytes.sum()))


def _list_kernels(
    work: WorkItems,
    within: NDArray[np.bool_],
    modeled: Floats,
    samples: _WorkingSamples,
    measured: CounterColumns | None,
    parts: int,
) -> Iterator[UnitCounters]:
    if measured is None:
        return
    known = within & ~np.isnan(measured.dram_bytes)
    names, time_ns = np.unique(work.name[known]), np.bincount(work.name[known], work.busy_ns[known])
    for name in sorted(names.tolist(), key=lambda each: -time_ns[each]):
        kernels = known & (work.name == name)
        mine = kernels[samples.row]
        moved, its_bytes = float(measured.dram_bytes[kernels].sum()), float(modeled[kernels].sum())
        yield _build_row("kernel", work.ops.trace.names[name], samples, mine, parts, moved, its_bytes)


def _build_row(
    kind: str,
    name: str,
    samples: _WorkingSamples,
    mine: NDArray[np.bool_],
    parts: int,
    measured: float | None,
    modeled: float,
) -> UnitCounters:
    return UnitCounters(
        kind=kind,
        name=name,
        samples=int(mine.sum()),
        seconds=float(samples.seconds[mine].sum()) / parts,
        sm_active=_average(samples.active[mine]),
        tensor_active=_average(samples.tensor[mine]),
        memory_active=_average(samples.memory[mine]),
        measured_bytes=None if measured is None else measured / parts,
        modeled_bytes=None if np.isnan(modeled) else modeled / parts,
    )


def build_sampled_columns(work: WorkItems, units: tuple[UnitSamples, ...], peak: float | None) -> CounterColumns | None:
    """Bytes of device memory of the kernels with at least two whole samples, aligned with `work`; None without any."""
    moved = np.full(len(work), np.nan)
    if work.on_device and peak is not None:
        for its in units:
            _add_kernel_bytes(moved, work, its, peak)
    if np.isnan(moved).all():
        return None
    unknown = np.full(len(work), np.nan)
    return CounterColumns(unknown, moved, unknown, unknown, unknown)


def _add_kernel_bytes(moved: Floats, work: WorkItems, its: UnitSamples, peak: float) -> None:
    known = ~np.isnan(its.memory)
    times, total = its.time_ns[known], np.append(0.0, np.cumsum(its.memory[known]))
    kernels = np.flatnonzero(
        (work.ops.trace.category[work.event] == Category.KERNEL) & (work.ops.trace.device[work.event] == its.device)
    )
    start, end = work.start_ns[kernels], work.end_ns[kernels]
    first, last = np.searchsorted(times, start), np.searchsorted(times, end - its.interval_ns, side="right")
    count = last - first
    alone = np.append(end[:-1] <= start[1:], True) & np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])
    enough = (count >= _LEAST_SAMPLES) & alone if len(kernels) else np.zeros(0, np.bool_)
    share = (total[last[enough]] - total[first[enough]]) / count[enough]
    moved[kernels[enough]] = share * (end - start)[enough] / 1e9 * peak


def _find_running(work: WorkItems, its: UnitSamples) -> Ints:
    """The row of the kernel that runs when each sample begins, the one that started last; NONE without any."""
    kernels = np.flatnonzero(
        (work.ops.trace.category[work.event] == Category.KERNEL) & (work.ops.trace.device[work.event] == its.device)
    )
    if not len(kernels):
        return np.full(len(its.time_ns), NONE, np.int64)
    place = np.searchsorted(work.start_ns[kernels], its.time_ns, side="right") - 1
    row = kernels[np.maximum(place, 0)]
    return np.where((place >= 0) & (its.time_ns < work.end_ns[row]), row, NONE)


def _average(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
