"""Many ranks of one job: time has to be linear in their number, and memory and result have to stay small.

    python benchmarks/many_ranks.py [--ranks 64] [--megabytes 5] [--jobs N] [--engine processes|ray] [--out FILE]
    python benchmarks/many_ranks.py --ranks 4096 --megabytes 0.6 --jobs 2 --out benchmarks/results/many_ranks_4096.json

Writes synthetic traces of a data-parallel job (one file a rank; in every collective one rank is late by a known time,
and every rank's clock is off by a known time), and analyzes 1, 4, 16 ... of them as `perfkit analyze` does. Then feeds
the reducer alone with up to 16 times as many ranks, 4,096 at most. Checks that the late rank, its lateness in every
step, and the clocks come out as they were put in.
"""

import argparse
import json
import os
import resource
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from perfkit.analysis.model.fleet import LATE, Fleet
from perfkit.analysis.parallel import engines
from perfkit.analysis.parallel.worker_processes import count_default_jobs
from perfkit.analysis.pipeline.file_analysis import TraceJob, TraceOutcome, analyze_file
from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.ranks.fleet import FleetReducer
from perfkit.devices.machine.machine import count_available_cores, read_cpu_model

STEPS = 4
LAYER_US = 100.0
REDUCE_US = 80.0
LATE_RANK = 1
LATE_US = 40.0  # in each collective, against all others
CLOCK_NS = 1_000_003  # every rank's clock is ahead of the one before by this

Event = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--megabytes", type=float, default=5.0, help="JSON of one rank")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--engine", choices=engines.ENGINES, default=engines.PROCESSES)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "many_ranks.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perfkit-ranks-") as folder:
        layers = layers_for(options.megabytes)
        paths = write_ranks(Path(folder), options.ranks, layers)
        size = paths[0].stat().st_size
        runs = []
        for count in sizes(options.ranks):
            run = analyse(paths[:count], options.engine, options.jobs)
            runs.append(run)
            print(
                f"{count:5} ranks  {run['wall_s']:7.2f} s  CPU {run['cpu_s']:7.2f} s  "
                f"{run['peak_rss_bytes'] / 1e6:5.0f} MB  result {run['result_bytes'] / 1e6:6.2f} MB",
                flush=True,
            )
        outcomes = [analyze_file(TraceJob(str(path))) for path in paths[:2]]
        reductions = [reduce(outcomes, count) for count in sizes(max(options.ranks, min(4096, options.ranks * 16)))]
    line = fit(runs)
    print(f"CPU = {line['start_s']:.2f} s + {line['cpu_s_a_rank'] * 1e3:.1f} ms a rank, within {line['worst']:.1%}")
    result = {
        "machine": f"{read_cpu_model()}, {count_available_cores()} cores",
        "engine": options.engine,
        "rank_json_bytes": size,
        "analysis": runs,
        "fit": line,
        "reducer": reductions,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written: {options.out}")


def sizes(most: int) -> list[int]:
    """1, 4, 16 ... up to `most`."""
    result = [1]
    while result[-1] * 4 < most:
        result.append(result[-1] * 4)
    return [*result, most] if most > 1 else result


def analyse(paths: list[Path], engine: str, jobs: int | None) -> dict[str, Any]:
    before = cpu_seconds()
    started = time.perf_counter()
    analysis = analyze_traces([str(path) for path in paths], engine=engine, jobs=jobs)
    if analysis.fleet is not None:
        check(analysis.fleet)
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    processes = 0 if len(paths) == 1 else min(len(paths), count_default_jobs() if jobs is None else jobs)
    return {
        "ranks": len(paths),
        "wall_s": time.perf_counter() - started,
        "cpu_s": cpu_seconds() - before,  # of this process and its children; on Ray only of this one
        # Of this process, and of as many children as the largest one.
        "peak_rss_bytes": (own.ru_maxrss + processes * children.ru_maxrss) * 1024,
        "result_bytes": len(msgspec.json.encode(analysis)),
        "in_full": len(analysis.traces),
    }


def fit(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Line through CPU time over ranks, of the runs that start processes; `worst` is its largest relative error."""
    several = [run for run in runs if run["ranks"] > 1] or runs
    ranks = np.asarray([run["ranks"] for run in several], float)
    cpu = np.asarray([run["cpu_s"] for run in several])
    slope, start = np.polyfit(ranks, cpu, 1) if len(several) > 1 else (cpu[0] / ranks[0], 0.0)
    worst = float(np.abs((start + slope * ranks) / cpu - 1).max())
    return {"start_s": float(start), "cpu_s_a_rank": float(slope), "worst": worst}


def check(fleet: Fleet) -> None:
    """What was put into the traces has to come out."""
    late = LATE_US * 1e-6 * fleet.skew[0].calls
    for row in fleet.ranks:
        expected = late if row.rank == LATE_RANK else 0.0
        assert row.late_s is not None, row
        assert abs(row.late_s - expected) < 1e-9, (row, expected)
        assert row.rank is not None, row
        assert row.last_share == float(row.rank == LATE_RANK), row
        assert row.clock_offset_s == row.rank * CLOCK_NS / 1e9, row
    assert fleet.skew[0].latest_rank == f"rank {LATE_RANK}", fleet.skew
    assert fleet.grid is not None, fleet
    late_rows = {place for place, row in enumerate(fleet.grid.figures[LATE]) if any(row)}
    assert late_rows == {LATE_RANK // fleet.grid.ranks_per_row}, late_rows


def reduce(outcomes: list[TraceOutcome], ranks: int) -> dict[str, Any]:
    """The reducer alone, with ranks repeated under new numbers; peak of what Python and NumPy allocated."""
    reducer = FleetReducer()
    tracemalloc.start()
    started = time.process_time()
    for number in range(ranks):
        outcome = outcomes[number % len(outcomes)]
        reducer.add(replace(outcome.rank, rank=number, label=f"rank {number}", world_size=ranks), outcome.arrivals)
    reducer.build_fleet()
    seconds = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    print(f"{ranks:5} ranks reduced  {seconds:6.2f} s CPU (traced)  peak {peak / 1e6:6.2f} MB", flush=True)
    return {"ranks": ranks, "cpu_s": seconds, "peak_bytes": peak, "collectives_a_rank": len(outcomes[0].arrivals)}


def cpu_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def layers_for(megabytes: float) -> int:
    one = len(json.dumps(rank_events(0, layers=1, steps=1)))
    return max(1, round(megabytes * 1e6 / STEPS / one))


def write_ranks(folder: Path, ranks: int, layers: int) -> list[Path]:
    """A file for each rank. The events of all ranks but one are equal, so that thousands are written in seconds."""
    even, late = (json.dumps(rank_events(rank, layers, STEPS)).encode() for rank in (LATE_RANK + 1, LATE_RANK))
    paths = []
    for rank in range(ranks):
        head = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks},
            "baseTimeNanoseconds": 1_700_000_000_000_000_000 + rank * CLOCK_NS,
        }
        paths.append(folder / f"rank{rank:04}.json")
        events = late if rank == LATE_RANK else even
        paths[-1].write_bytes(json.dumps(head).encode()[:-1] + b', "traceEvents": ' + events + b"}")
    return paths


def rank_events(rank: int, layers: int, steps: int) -> list[Event]:
    """Layers of a product, a sum and an all-reduce, to which one rank comes late and which all leave together."""
    events: list[Event] = []
    late = LATE_US if rank == LATE_RANK else 0.0
    step_us = layers * (LAYER_US + REDUCE_US) + 50
    for step in range(steps):
        events.append(host("user_annotation", f"ProfilerStep#{step}", step * step_us, step_us - 1, {}))
        for layer in range(layers):
            at, number = step * step_us + layer * (LAYER_US + REDUCE_US), 10 * (step * layers + layer)
            events += product(at, number)
            events += addition(at + 30, number + 2, at + 70)
            events += all_reduce(at + 50, number + 4, at + LAYER_US + late, REDUCE_US - late - 5)
    return events


def product(at: float, number: int) -> list[Event]:
    shapes = [[4096], [8192, 1024], [1024, 4096], [], []]
    types = ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"]
    return [
        host("cpu_op", "aten::linear", at, 25, inputs(number, [shapes[1], [4096, 1024], shapes[0]], types[:3])),
        host("cpu_op", "aten::addmm", at + 2, 20, inputs(number + 1, shapes, types)),
        host("cuda_runtime", "cudaLaunchKernel", at + 10, 5, {"correlation": number + 1, "External id": number + 1}),
        device("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", at + 20, 45, number + 1),
    ]


def addition(at: float, number: int, kernel_at: float) -> list[Event]:
    return [
        host(
            "cpu_op", "aten::add", at, 10, inputs(number, [[8192, 4096]] * 2 + [[]], ["c10::BFloat16"] * 2 + ["Scalar"])
        ),
        host("cuda_runtime", "cudaLaunchKernel", at + 3, 5, {"correlation": number, "External id": number}),
        device("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add>", kernel_at, 25, number),
    ]


def all_reduce(at: float, number: int, kernel_at: float, duration: float) -> list[Event]:
    about = {
        "Collective name": "allreduce", "In msg nelems": 4194304, "Out msg nelems": 4194304, "dtype": "BFloat16",
        "Group size": 64, "Process Group Name": "0", "Process Group Description": "default_pg",
    }  # fmt: skip
    kernel = device("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", kernel_at, duration, number, stream=20)
    kernel["args"] |= about
    return [
        host("cpu_op", "record_param_comms", at, 20, {"External id": number, **about}),
        host("cuda_runtime", "cudaLaunchKernelExC", at + 5, 5, {"correlation": number, "External id": number}),
        kernel,
    ]


def inputs(number: int, shapes: list[list[int]], types: list[str]) -> dict[str, Any]:
    strides = [[shape[1], 1] if len(shape) == 2 else [1] * len(shape) for shape in shapes]
    concrete = ["1" if kind == "Scalar" else "" for kind in types]
    return {
        "External id": number, "Sequence number": number, "Input Dims": shapes, "Input Strides": strides,
        "Input type": types, "Concrete Inputs": concrete,
    }  # fmt: skip


def host(category: str, name: str, at: float, duration: float, args: dict[str, Any]) -> Event:
    return {
        "ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": round(at, 3), "dur": round(duration, 3),
        "args": args,
    }  # fmt: skip


def device(name: str, at: float, duration: float, correlation: int, stream: int = 7) -> Event:
    args = {
        "External id": correlation, "correlation": correlation, "device": 0, "stream": stream, "context": 1,
        "grid": [256, 1, 1], "block": [128, 1, 1], "registers per thread": 96, "shared memory": 1024,
    }  # fmt: skip
    return {
        "ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": round(at, 3),
        "dur": round(duration, 3), "args": args,
    }  # fmt: skip


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
