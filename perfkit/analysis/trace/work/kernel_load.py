"""How far kernels fill a device's streaming multiprocessors (SMs): estimates from their launches.

Definitions of torch-tb-profiler (tb_plugin/README.md of pytorch/kineto): blocks per SM = blocks / SMs of the device;
SM efficiency = min(blocks per SM, 1); achieved occupancy = active warps of an SM / the most that it holds. Means over
calls are weighted with their durations; of a step, SM efficiency counts idle time as 0.

Kineto records blocks per SM and occupancy (whole percent; 0 also where CUDA's calculator failed). Where it did not,
they follow from the launch and the device's sizes as the CUDA C++ Programming Guide ("Compute Capabilities", technical
specifications) and the CUDA Occupancy Calculator have them. ROCm's grids are of blocks or of threads: nothing follows.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.launches import DeviceLoad
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.trace.kernel_geometry import KernelGeometry, parse_geometry
from perfkit.trace.model import NONE, Category, Ints, Trace

Floats = NDArray[np.float64]

_WARP = 32  # threads
_PARTITIONS = 4  # of an SM, each with its share of the registers
_REGISTER_UNIT = 256  # registers are allocated to a warp in so many
_SHARED_UNIT, _SHARED_RESERVED = 128, 1024  # bytes; the latter for each block since compute capability 8
_MOST_BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (12, 0): 24, (12, 1): 24}
_MOST_BLOCKS_OF_OTHERS = 32
_LEAST_SHOWN = 0.005  # what rounds to 0 %
_FEWEST_THREADS = 1024  # that an SM of any device holds


class KernelLoad(NamedTuple):
    """Columns, one row a piece of work; NaN where not known."""

    blocks_per_sm: Floats
    efficiency: Floats
    occupancy: Floats


class _SmSizes(NamedTuple):
    threads: int
    registers: int
    shared_bytes: int
    capability: tuple[int, int]


class _DeviceSizes(NamedTuple):
    sms: int | None
    sm: _SmSizes | None


def measure_kernel_load(trace: Trace, events: Ints) -> KernelLoad:
    """The load of each of these events; not known for what is no kernel."""
    geometry = np.where(trace.category[events] == Category.KERNEL, trace.geometry[events], NONE)
    groups, devices = group_rows(geometry, trace.device[events]), trace.device[events]
    sizes: dict[int, _DeviceSizes] = {}
    table = np.full((len(groups), 3), np.nan)
    pairs = zip(geometry[groups.first].tolist(), devices[groups.first].tolist(), strict=True)
    for row, (number, device) in enumerate(pairs):
        if number != NONE:
            if device not in sizes:
                sizes[device] = _read_sizes(trace, device)
            table[row] = _estimate_load(parse_geometry(trace.geometries[number]), sizes[device])
    return KernelLoad(*table[groups.of].T)


def summarize_load(load: KernelLoad, time_ns: Ints, span_s: float) -> DeviceLoad | None:
    """The load of some kernels that took these times within a span; None without any time."""
    total = int(time_ns.sum())
    if not total or span_s <= 0:
        return None
    efficient, occupied = ~np.isnan(load.efficiency), ~np.isnan(load.occupancy)
    busy_s = float((load.efficiency * time_ns)[efficient].sum()) / 1e9
    occupied_ns = int(time_ns[occupied].sum())
    return DeviceLoad(
        sm_efficiency=min(busy_s / span_s, 1.0) if efficient.any() else None,
        occupancy=float((load.occupancy * time_ns)[occupied].sum()) / occupied_ns if occupied_ns else None,
        known_share=int(time_ns[efficient].sum()) / total,
        occupancy_share=occupied_ns / total,
    )


def _read_sizes(trace: Trace, device: int) -> _DeviceSizes:
    def read(member: str) -> int | None:
        text = trace.properties.get(f"device {device} {member}", trace.properties.get(member, ""))
        return int(text) if text.isdecimal() else None

    threads, registers = read("maxThreadsPerMultiprocessor"), read("regsPerMultiprocessor")
    shared, major, minor = read("sharedMemPerMultiprocessor"), read("computeMajor"), read("computeMinor")
    sms = read("numSms") or None
    if not threads or not registers or not shared or major is None or minor is None:
        return _DeviceSizes(sms, None)
    return _DeviceSizes(sms, _SmSizes(threads, registers, shared, (major, minor)))


def _estimate_load(launch: KernelGeometry, sizes: _DeviceSizes) -> tuple[float, float, float]:
    """Blocks per SM, SM efficiency and occupancy; NaN where not known."""
    if launch.registers is None:  # not of CUPTI
        return np.nan, np.nan, np.nan
    blocks = launch.blocks_per_sm
    if not blocks:
        blocks = np.nan if launch.blocks is None or sizes.sms is None else launch.blocks / sizes.sms
    recorded = launch.occupancy
    occupancy = recorded if recorded else _compute_occupancy(launch, sizes.sm, blocks)
    if recorded == 0 and np.isnan(occupancy) and blocks * (launch.threads or np.nan) < _LEAST_SHOWN * _FEWEST_THREADS:
        occupancy = 0.0
    return blocks, min(blocks, 1.0), occupancy


def _compute_occupancy(launch: KernelGeometry, sm: _SmSizes | None, blocks_per_sm: float) -> float:
    """Active warps over the most of an SM: those of the blocks that fit, and of no more than each gets."""
    if sm is None or launch.threads is None or launch.shared_bytes is None or launch.registers is None:
        return np.nan
    warps = -(-launch.threads // _WARP)
    registers = -(-max(launch.registers, 1) * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT  # of a warp
    reserved = _SHARED_RESERVED if sm.capability >= (8, 0) else 0
    shared = -(-(launch.shared_bytes + reserved) // _SHARED_UNIT) * _SHARED_UNIT
    fitting = min(
        _MOST_BLOCKS.get(sm.capability, _MOST_BLOCKS_OF_OTHERS),
        sm.threads // (warps * _WARP),
        sm.registers // _PARTITIONS // registers * _PARTITIONS // warps,
        sm.shared_bytes // shared if shared else _MOST_BLOCKS_OF_OTHERS,
    )
    # A kernel that ran fits: what was recorded (of a cluster, of dynamic shared memory) is not all that decides.
    return min(fitting, blocks_per_sm) * warps * _WARP / sm.threads if fitting else np.nan
