"""Matches Nsight Compute's counters to the kernels of a trace."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfkit.core.note import Note, make_note
from perfkit.trace.counters.metrics import TENSOR_INSTRUCTIONS, LaunchCounts, compute_launch_counts
from perfkit.trace.counters.ncu_csv import ProfiledLaunch, read_launches
from perfkit.trace.model import NONE, Category, Trace
from perfkit.trace.ops.kernels import Kernels

Floats = NDArray[np.float64]

# Launches of one kernel whose counts differ by less than this do the same work, whichever of them it was.
_SAME = 0.02


@dataclass(frozen=True)
class CounterColumns:
    """Counts for the kernels of a trace, one row a kernel; NaN where it has none.

    `flops` in FLOP; `dram_bytes`, `l2_bytes` and `l1_bytes` are the traffic of a level in bytes; `seconds` is the
    launch's time under the counting profiler, with other clocks and cold caches: for checking, not for reporting.
    """

    flops: Floats
    dram_bytes: Floats
    l2_bytes: Floats
    l1_bytes: Floats
    seconds: Floats

    @property
    def known(self) -> NDArray[np.bool_]:
        """True where a kernel has any count."""
        return ~(np.isnan(self.flops) & np.isnan(self.dram_bytes))


@dataclass(frozen=True)
class LaunchCounters:
    """Launches in order of counting: the kernel's printed name and its counts (NaN: missing)."""

    path: Path
    kernels: tuple[str, ...]
    flops: Floats
    dram_bytes: Floats
    l2_bytes: Floats
    l1_bytes: Floats
    seconds: Floats
    notes: tuple[Note, ...] = ()

    def __len__(self) -> int:
        return len(self.kernels)

    def match_columns(self, trace: Trace, kernels: Kernels) -> CounterColumns:
        """The counts for the rows of `kernels`, matched by name and order of launch (`match_launches`)."""
        is_kernel = trace.category[kernels.event] == Category.KERNEL
        rows = np.flatnonzero(is_kernel)
        start = trace.start_ns[kernels.event[rows]]
        launch = kernels.launch[rows]
        launched = np.where(launch == NONE, start, trace.start_ns[launch])
        rows = rows[np.lexsort((start, launched))]
        names = [trace.names[name] for name in trace.name[kernels.event[rows]].tolist()]
        columns = match_launches(self, names)
        empty = np.full(len(kernels), np.nan)
        placed = [empty.copy() for _ in columns]
        for column, values in zip(placed, columns, strict=True):
            column[rows] = values
        return CounterColumns(*placed)


def read_counters(path: str | Path) -> LaunchCounters:
    """Read a CSV export of Nsight Compute: `ncu --csv --page raw`, or `--page details` with `--metrics`.

    Of several processes in one export the one with the most launches is taken. `RunFormatError` names a file that
    cannot be read or holds no counters.
    """
    path = Path(path)
    launches, notes = read_launches(path)
    processes = Counter(launch.process for launch in launches)
    if len(processes) > 1:
        process, count = processes.most_common(1)[0]
        text = f"contains launches of {len(processes)} processes: using process {process} ({count:,})"
        notes += (make_note("counters.processes", text, processes=len(processes)),)
        launches = [launch for launch in launches if launch.process == process]
    table = [compute_launch_counts(launch.metrics, launch.capability) for launch in launches]
    return LaunchCounters(
        path=path,
        kernels=tuple(launch.kernel for launch in launches),
        flops=_make_column([row.flops for row in table]),
        dram_bytes=_make_column([row.dram_bytes for row in table]),
        l2_bytes=_make_column([row.l2_bytes for row in table]),
        l1_bytes=_make_column([row.l1_bytes for row in table]),
        seconds=_make_column([row.seconds for row in table]),
        notes=(*notes, *_explain_missing(launches, table)),
    )


def _make_column(values: Sequence[float | None]) -> Floats:
    return np.asarray([np.nan if value is None else value for value in values], np.float64)


def _explain_missing(launches: Sequence[ProfiledLaunch], table: Sequence[LaunchCounts]) -> list[Note]:
    """The reason for missing counts, where there are some."""
    notes = []
    without = sum(row.flops is None for row in table)
    if without:
        named = any(TENSOR_INSTRUCTIONS in name for launch in launches for name in launch.metrics)
        why = "tensor instructions do not map to operations on this chip" if named else "incompletely collected"
        text = (
            f"FLOPs of {without:,} of {len(table):,} launches unknown ({why}): collect the nine "
            "smsp__sass_thread_inst_executed_op_* sums and regex:^sm__ops_path_tensor_src"
        )
        notes.append(make_note("counters.no_flops", text, launches=without))
    without = sum(row.dram_bytes is None for row in table)
    if without:
        text = (
            f"memory traffic of {without:,} of {len(table):,} launches was not collected: add dram__bytes_read.sum and "
            "dram__bytes_write.sum to --metrics"
        )
        notes.append(make_note("counters.no_traffic", text, launches=without))
    return notes


def match_launches(counters: LaunchCounters, names: Sequence[str]) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """FLOPs, DRAM, L2 and L1 bytes and seconds for kernels named in the order of their launch; NaN where none match.

    Kernels are matched by their name with template arguments, or, where the export prints none (`--print-kernel-base
    function`), by the bare name, and then one by one in order. A trace of several equal steps takes the counts of one
    step again and again, and a longer export is averaged over its repeats. Where neither number of launches divides
    the other, counts are taken only if all launches of the kernel agree within 2 %.
    """
    columns = (counters.flops, counters.dram_bytes, counters.l2_bytes, counters.l1_bytes, counters.seconds)
    result = tuple(np.full(len(names), np.nan) for _ in columns)
    open_rows, open_launches = np.arange(len(names)), np.arange(len(counters))
    for key in (normalize_kernel_name, get_bare_name):
        rows = _group_by_key([names[row] for row in open_rows.tolist()], open_rows, key)
        launches = _group_by_key([counters.kernels[launch] for launch in open_launches.tolist()], open_launches, key)
        both = rows.keys() & launches.keys()
        for name in both:
            for column, values in zip(result, columns, strict=True):
                column[rows[name]] = _spread_counts(values[launches[name]], len(rows[name]))
        open_rows = _collect_unmatched(rows, both)
        open_launches = _collect_unmatched(launches, both)
        # Only names printed bare may be matched so: others of the same bare name are other instances of a template.
        open_launches = open_launches[[counters.kernels[launch].isidentifier() for launch in open_launches.tolist()]]
    return (result[0], result[1], result[2], result[3], result[4])


def _group_by_key(
    names: Sequence[str], rows: NDArray[np.int64], key: Callable[[str], str]
) -> dict[str, NDArray[np.int64]]:
    keys = {name: key(name) for name in set(names)}
    together: dict[str, list[int]] = defaultdict(list)
    for name, row in zip(names, rows.tolist(), strict=True):
        together[keys[name]].append(row)
    return {kernel: np.asarray(members, np.int64) for kernel, members in together.items()}


def _collect_unmatched(rows: dict[str, NDArray[np.int64]], matched: set[str]) -> NDArray[np.int64]:
    rest = [members for key, members in rows.items() if key not in matched]
    return np.sort(np.concatenate(rest)) if rest else np.empty(0, np.int64)


def _spread_counts(values: Floats, count: int) -> Floats:
    """The counts of some launches for `count` launches of the same kernel."""
    if count % len(values) == 0:
        return np.tile(values, count // len(values))
    if len(values) % count == 0:
        averaged: Floats = values.reshape(-1, count).mean(axis=0)
        return averaged
    mean = float(values.mean())
    agree = bool(np.all(np.abs(values - mean) <= _SAME * abs(mean)))  # False where a count is NaN
    return np.full(count, mean if agree else np.nan)


_CASTS = (
    (re.compile(r"\(bool\)0"), "false"),
    (re.compile(r"\(bool\)1"), "true"),
    (re.compile(r"\((?:unsigned |signed )?(?:char|short|int|long|long long)\)(?=-?\d)"), ""),
    (re.compile(r"(?<=\d)(?:ull|ul|ll|u|l)\b"), ""),
)
_ANONYMOUS = re.compile(r"<unnamed>|\(anonymous namespace\)|\{anonymous\}")
_LAMBDA = re.compile(r"[\[{]lambda\([^()]*\)(?: \(instance (\d+)\)|#(\d+))[\]}]")


def normalize_kernel_name(name: str) -> str:
    """A kernel's name with template arguments, as every demangler agrees on it.

    Nsight Compute prints `k<(int)4, (bool)1>(int, T2)` and `<unnamed>`, Kineto `k<4, true>(int, float)` and
    `(anonymous namespace)`: casts, parameters, qualifiers and spaces are dropped, lambdas keep their number.
    """
    name = _ANONYMOUS.sub("@", name)
    name = _LAMBDA.sub(lambda written: f"@lambda{written[1] or written[2]}", name)
    for pattern, text in _CASTS:
        name = pattern.sub(text, name)
    while (shorter := re.sub(r"\([^()]*\)", "", name)) != name:
        name = shorter
    name = re.sub(r"\bconst\b|^void\b|(?<=[<,\s])void(?=\s)", "", name)
    return re.sub(r"\s+", "", name)


def get_bare_name(name: str) -> str:
    """The kernel's own name, without namespaces, template arguments and parameters."""
    head = normalize_kernel_name(name).partition("<")[0]
    return head.rpartition("::")[2]
