"""Flight recorder dumps of many ranks: time has to be linear in their number, and memory has to stay small.

    python benchmarks/many_recorders.py [--ranks 256] [--calls 200] [--jobs N] [--out FILE]
    python benchmarks/many_recorders.py --ranks 4096 --jobs 2 --out benchmarks/results/many_recorders_4096.json

Writes synthetic dumps of jobs with 1/16, 1/4 and all of the ranks (a pickle a rank, as NCCL's watchdog writes): in
tensor-parallel groups of eight, data-parallel groups across them, and the group of all. One rank does not enter the
last collective of all. Analyzes each job as `perfkit analyze` does, and checks that rank and collective come out.
"""

import argparse
import json
import os
import pickle
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from perfkit.analysis.model.flight import FlightAnalysis
from perfkit.analysis.parallel.worker_processes import count_default_jobs
from perfkit.analysis.pipeline.flight_analysis import analyze_flight
from perfkit.devices.machine.machine import count_available_cores, read_cpu_model
from perfkit.flight.flight_dumps import select_dumps

TENSOR_RANKS = 8
ABSENT_RANK = 11
FRAMES = 24  # of a call: the program below the frames of torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=256, help="a multiple of 8, at least 16")
    parser.add_argument("--calls", type=int, default=200, help="collectives in each dump")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "many_recorders.json")
    options = parser.parse_args()
    counts = sorted({max(2 * TENSOR_RANKS, options.ranks // share) for share in (16, 4, 1)})
    runs = []
    with tempfile.TemporaryDirectory(prefix="perfkit-recorders-") as name:
        for ranks in counts:
            folder = Path(name, str(ranks))
            dump_bytes = write_dumps(folder, ranks, options.calls)
            run = {**measure(folder, ranks, options.jobs), "dump_bytes": dump_bytes}
            runs.append(run)
            print(
                f"{ranks:5} dumps  {run['wall_s']:7.2f} s  CPU {run['cpu_s']:7.2f} s  "
                f"{run['peak_rss_bytes'] / 1e6:5.0f} MB  result {run['result_bytes'] / 1e6:6.2f} MB",
                flush=True,
            )
    result = {
        "machine": f"{read_cpu_model()}, {count_available_cores()} cores",
        "calls": options.calls,
        "analysis": runs,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written: {options.out}")


def measure(folder: Path, ranks: int, jobs: int | None) -> dict[str, Any]:
    before = read_cpu_seconds()
    started = time.perf_counter()
    analysis = analyze_flight(select_dumps([str(folder)]), jobs=jobs)
    seconds = time.perf_counter() - started
    check(analysis, ranks)
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    processes = count_default_jobs() if jobs is None else jobs
    return {
        "ranks": ranks,
        "wall_s": seconds,
        "cpu_s": read_cpu_seconds() - before,
        # Of this process, and of as many children as the largest one.
        "peak_rss_bytes": (own.ru_maxrss + processes * children.ru_maxrss) * 1024,
        "own_rss_bytes": own.ru_maxrss * 1024,
        "result_bytes": len(msgspec.json.encode(analysis)),
    }


def check(analysis: FlightAnalysis, ranks: int) -> None:
    """What was put into the dumps has to come out."""
    assert len(analysis.ranks) == ranks, len(analysis.ranks)
    [meeting] = analysis.mismatched_collectives
    assert meeting.absent == (ABSENT_RANK,), meeting.absent
    assert len(meeting.waiting) == ranks - 1, len(meeting.waiting)
    assert meeting.group.ranks == tuple(range(ranks)), meeting.group


def read_cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def write_dumps(folder: Path, ranks: int, calls: int) -> int:
    """A dump for each rank; the bytes of one."""
    folder.mkdir()
    for rank in range(ranks):
        path = folder / f"comm_lib_trace_rank_{rank}"
        path.write_bytes(pickle.dumps(build_dump(rank, ranks, calls), 2))
    return (folder / "comm_lib_trace_rank_0").stat().st_size


def build_dump(rank: int, ranks: int, calls: int) -> dict[str, Any]:
    first = rank - rank % TENSOR_RANKS
    groups = {
        ("0", "default_pg"): range(ranks),
        ("1", "tensor_parallel"): range(first, first + TENSOR_RANKS),
        ("2", "data_parallel"): range(rank % TENSOR_RANKS, ranks, TENSOR_RANKS),
    }
    sequences = dict.fromkeys(groups, 0)
    entries = []
    for number in range(calls):
        last = number == calls - 1
        if last and rank == ABSENT_RANK:
            break
        kind = 0 if last else 1 + number % 4 // 3
        group = list(groups)[kind]
        sequences[group] += 1
        entries.append(build_entry(number, group, sequences[group], kind, ended=not last))
    config = {
        name: {"name": name, "desc": description, "ranks": str(list(members))}
        for (name, description), members in groups.items()
    }
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "comm_lib_version": "", "entries": entries}


def build_entry(number: int, group: tuple[str, str], sequence: int, kind: int, *, ended: bool) -> dict[str, Any]:
    return {
        "frames": STACKS[kind],
        "record_id": number,
        "pg_id": int(group[0]),
        "process_group": group,
        "thread_name": "python",
        "thread_id": "140223",
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "op_id": sequence,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": 1_000 * number,
        "input_sizes": [[4096, 1024 << kind]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[4096, 1024 << kind]],
        "output_dtypes": ["BFloat16"],
        "state": "completed" if ended else "started",
        "time_discovered_started_ns": 1_000 * number + 1,
        "time_discovered_completed_ns": 1_000 * number + 2 if ended else None,
        "retired": ended,
        "timeout_ms": 600_000,
        "is_p2p": False,
    }


STACKS = [
    [{"name": f"call_{kind}_{depth}", "filename": f"/job/train_{depth}.py", "line": depth} for depth in range(FRAMES)]
    for kind in range(3)
]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
