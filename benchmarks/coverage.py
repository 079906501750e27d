"""How much of a trace's work has FLOPs and bytes: `python benchmarks/coverage.py TRACE...`.

For each trace the time of its kernels (of its ops where no device was traced), the shares of it that are linked to an
op, that have FLOPs and that have bytes, and the names that hold most of the time without, each with the reason. Time in
collectives is left out: it belongs to the interconnect. So are copies and fills, whose size the trace tells itself.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.kernels import communication
from perfkit.trace.ops import Ops, Role, read_ops
from perfkit.trace.read import NONE, Category, read_trace


class Coverage(NamedTuple):
    """Seconds of work, and shares of it."""

    seconds: float
    linked: float
    recorded: float
    flops: float
    bytes: float
    uncovered: list[tuple[str, float, str]]  # name, share, reason


def coverage(ops: Ops) -> Coverage:
    """Coverage of a trace; without a device, of the time of ops that do work on data."""
    row, duration, label = _device_work(ops) if ops.trace.has_device_events else _host_work(ops)
    total = int(duration.sum())
    if not total:
        return Coverage(0.0, 0.0, 0.0, 0.0, 0.0, [])
    known = np.append(np.isfinite(ops.flops), False)[row], np.append(np.isfinite(ops.bytes), False)[row]
    signature = np.append(ops.trace.signature[ops.event], NONE)[row]
    missing: Counter[tuple[str, str]] = Counter()
    for index in np.flatnonzero(~(known[0] & known[1])).tolist():
        reason = _reason(ops, int(row[index]), int(signature[index]), bool(known[0][index]), bool(known[1][index]))
        name = ops.name(int(row[index])) if row[index] != NONE else ops.trace.names[label[index]]
        missing[name, reason] += int(duration[index])
    return Coverage(
        total / 1e9,
        float(duration[row != NONE].sum() / total),
        float(duration[signature != NONE].sum() / total),
        float(duration[known[0]].sum() / total),
        float(duration[known[1]].sum() / total),
        [(name[:70], time / total, reason) for (name, reason), time in missing.most_common(12)],
    )


def _device_work(ops: Ops) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Row of the op, duration and name of each kernel that is no collective."""
    trace = ops.trace
    event = ops.kernels.event
    counted = (trace.category[event] == Category.KERNEL) & ~np.isin(event, communication(trace))
    event = event[counted]
    return ops.kernel_owner[counted], trace.end_ns[event] - trace.start_ns[event], trace.name[event]


def _host_work(ops: Ops) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    rows = np.flatnonzero(np.isin(ops.role, (Role.COSTED, Role.UNMODELLED)))
    return rows, ops.work_ns[rows], ops.trace.name[ops.event[rows]]


def _reason(ops: Ops, row: int, signature: int, has_flops: bool, has_bytes: bool) -> str:
    if row == NONE:
        return "no op"
    if signature == NONE:
        return "no recorded inputs"
    call = int(ops.call[row])
    if call == NONE:
        return "no formula"
    lacking = " and ".join(name for name, has in (("FLOPs", has_flops), ("bytes", has_bytes)) if not has)
    return f"no {lacking}: {ops.calls[call].cost.source}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="+", type=Path)
    for path in parser.parse_args().traces:
        found = coverage(read_ops(read_trace(path)))
        print(
            f"{path.name}: {found.seconds * 1e3:.3f} ms; linked {found.linked:.1%},"
            f" inputs recorded {found.recorded:.1%}, FLOPs {found.flops:.2%}, bytes {found.bytes:.2%}"
        )
        for name, share, reason in found.uncovered:
            if share >= 0.0005:
                print(f"    {share:7.2%}  {name}  ({reason})")


if __name__ == "__main__":
    main()
