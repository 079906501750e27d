"""Runs of which nothing but the memory pass is wanted, analysed as any suite is."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np

from perfkit.allocations import CATEGORIES, Ints
from perfkit.analysis.memory.classify import categories
from perfkit.analysis.memory.lives import lives_of
from perfkit.analysis.memory.totals import totals_of
from perfkit.analysis.model.memory import MemoryAccount
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.suite.analyse import analyse
from perfkit.files import write_json
from perfkit.measure.bench import min_world_size
from perfkit.measure.launch.process import launch
from perfkit.measure.schedule import BenchRequest, bench_schedule
from perfkit.record import Run
from perfkit.spec import Schedule, parse_variants, parse_workload
from perfkit.store.layout import MEMORY_FILE, SUITE_FILE, Suite, SuiteRun, rank_folder, run_path
from perfkit.store.memory_file import read_allocations
from perfkit.workloads.table import WORKLOADS

# Two steps, after which the optimizer's state is there, and one that nobody looks at.
SCHEDULE = Schedule(warmup=2, max_warmup=2, timed=1)


def run_memory(
    workload: str,
    variants: str,
    folder: Path,
    *,
    threads: int | None = None,
    accumulation: int = 1,
    report: Callable[[str], None] = print,
) -> Analysis:
    """Train every variant of `variants` (and the baselines they are compared with) and analyse its memory.

    `folder` must not exist; `threads` is per rank; `accumulation` microbatches make a step. `report` gets the name
    of each variant as it starts and its reason where it does not end well.
    """
    request = BenchRequest(
        workload=parse_workload(workload, WORKLOADS.names()),
        variants=tuple(parse_variants(variants)),
        device="cpu",
        device_count=0,
        cores=os.cpu_count() or 1,
        threads=threads,
        accumulation=accumulation,
        schedule=SCHEDULE,
        repeats=1,
    )
    planned = bench_schedule(request, min_world_size)
    runs = []
    for item in planned.runs:
        spec = msgspec.structs.replace(item.spec, passes=("memory",))
        entry = SuiteRun(variant=spec.variant, repeat=0, path=run_path(spec.variant, 0))
        report(spec.variant)
        run: Run = launch(spec, folder / entry.path, lambda _: None)
        if run.reason:
            report(f"{spec.variant}: {run.status}: {run.reason}")
        runs.append(entry)
    suite = Suite(
        created_at="",
        perfkit="",
        command="",
        variants=planned.variants,
        baselines=planned.baselines,
        runs=tuple(runs),
    )
    write_json(folder / SUITE_FILE, suite)
    return analyse(folder)


def accounts(analysis: Analysis) -> dict[str, MemoryAccount]:
    """The accounts by variant, of those that have one."""
    return {variant.name: variant.memory for variant in analysis.variants if variant.memory is not None}


def bytes_of(account: MemoryAccount, categories: Iterable[str]) -> int:
    """Bytes at the peak in some categories."""
    wanted = set(categories)
    return sum(share.bytes for share in account.categories if share.category in wanted)


def over_time(folder: Path, variant: str, rank: int = 0) -> dict[str, Ints]:
    """Bytes of a rank by category at every moment that `run_memory` recorded, and of all as "total".

    An account has a timeline of some moments; its peaks are those of the sum, not those of each category.
    """
    allocations = read_allocations(rank_folder(folder / run_path(variant, 0), rank) / MEMORY_FILE)
    lives = lives_of(allocations)
    named = categories(allocations, lives)
    events = len(allocations)
    found = {"total": totals_of(lives, events)}
    for number, category in enumerate(CATEGORIES):
        changes = np.zeros(events + 2, np.int64)
        mine = named == number
        np.add.at(changes, lives.born[mine] + 1, lives.size[mine])
        np.subtract.at(changes, lives.died[mine] + 1, lives.size[mine])
        found[category] = np.cumsum(changes)[: events + 1]
    return found
