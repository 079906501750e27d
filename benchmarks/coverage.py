"""How much of a trace's work has FLOPs and bytes: `python benchmarks/coverage.py TRACE...` prints Markdown.

For each trace the time of its kernels (of its ops where no device was traced) and the shares of it that are linked to
an op, that equal kernels of known ops (inferred), that have FLOPs and that have bytes, of which there are but bounds
since data decide, and whose bytes are but estimated from recorded arguments; then the names that hold most of the time
without, each with the reason. Time in collectives is left out: it belongs to the interconnect. So are copies
and fills, whose size the trace tells itself.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.families import family_costs
from benchmarks.replayed import print_graphs
from perfkit.analysis.model.coverage import UncoveredWork
from perfkit.analysis.trace.capture_joining import join_captures
from perfkit.analysis.trace.coverage import list_uncovered_work
from perfkit.analysis.trace.time.step_windows import find_step_windows
from perfkit.analysis.trace.work.work_item_costs import compute_item_costs
from perfkit.analysis.trace.work.work_items import WorkKind, collect_work_items
from perfkit.core import units
from perfkit.core.text_blocks import ReadLimits
from perfkit.cost.calls.op_call import ComputeUnit, OpCost
from perfkit.trace.model import Category
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace

_LEAST_SHARE = 0.0005  # of the time, for a name to be listed
_LONGEST_NAME = 70


class Shares(NamedTuple):
    """Seconds of work, and shares of it."""

    seconds: float
    linked: float
    inferred: float
    flops: float
    bytes: float
    bounded: float
    estimated: float
    uncovered: tuple[UncoveredWork, ...]


def shares(path: Path) -> Shares | None:
    """The coverage of a trace's computing work, with captures of its graphs beside it; None where it holds none."""
    ops = join_captures(read_ops(read_trace(path)), str(path), (), ReadLimits(), must_fit=False).ops
    work = collect_work_items(ops, find_step_windows(ops))
    costs = compute_item_costs(work, np.full(len(work), np.nan))
    counted = work.is_kind(WorkKind.WORK)
    linked = np.ones(len(work), np.bool_)
    if work.on_device:
        counted &= ops.trace.category[work.event] == Category.KERNEL
        linked = ops.kernel_op >= 0
    time = np.where(counted, work.busy_ns, 0)
    total = int(time.sum())
    if not total:
        return None
    has_flops, has_bytes = ~np.isnan(costs.flops), ~(np.isnan(costs.bytes) | costs.estimated)
    linked_part, inferred, flops, moved, bounded, estimated = (
        float(time[part].sum() / total)
        for part in (linked, work.inferred, has_flops, has_bytes, costs.is_bounded, costs.estimated)
    )
    missing = list_uncovered_work(work, counted & ~has_flops, counted & ~has_bytes)
    return Shares(total / 1e9, linked_part, inferred, flops, moved, bounded, estimated, missing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--graphs", action="store_true", help="what is known of replayed graphs with their captures")
    parser.add_argument("--families", action="store_true", help="what is known of one call of each family of ops")
    given = parser.parse_args()
    if given.families:
        print_families()
    if given.graphs:
        print_graphs()
    if given.traces:
        print_traces(given.traces)


def print_families() -> None:
    print("| family | op | FLOPs | bytes | from |\n|---|---|---|---|---|")
    for family, (name, cost) in family_costs().items():
        known = cost or OpCost(None, None, ComputeUnit.VECTOR, "", "")
        amounts = (
            _amount(known.flops, known.most_flops, units.format_flops),
            _amount(known.bytes, known.most_bytes, units.format_bytes),
        )
        print(f"| {family} | `{name[:_LONGEST_NAME]}` | {amounts[0]} | {amounts[1]} | {known.source} |")


def _amount(least: float | None, most: float | None, show: Callable[[float], str]) -> str:
    if least is None:
        return "unknown"
    return show(least) if most is None else f"{show(least)} to {show(most)}"


def print_traces(paths: Sequence[Path]) -> None:
    by_trace = {path.name: shares(path) for path in paths}
    print("| trace | kernel time | linked to an op | inferred | FLOPs | bytes | bounds | estimated |")
    print("|---" * 8 + "|")
    for name, coverage in by_trace.items():
        if coverage is None:
            print(f"| `{name}` | no computing work | | | | | | |")
        else:
            parts = (coverage.linked, coverage.inferred, coverage.flops, coverage.bytes)
            columns = " | ".join(f"{part:.2%}" for part in (*parts, coverage.bounded, coverage.estimated))
            print(f"| `{name}` | {coverage.seconds * 1e3:.3f} ms | {columns} |")
    print("\n| trace | without FLOPs or bytes | share | why |\n|---|---|---|---|")
    for name, coverage in by_trace.items():
        for row in coverage.uncovered if coverage else ():
            share = row.seconds / coverage.seconds if coverage else 0.0
            if share >= _LEAST_SHARE:
                print(f"| `{name}` | `{row.name[:_LONGEST_NAME].replace('|', '/')}` | {share:.2%} | {row.reason} |")


if __name__ == "__main__":
    main()
