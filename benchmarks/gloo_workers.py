"""Why ranks that split layers have one Gloo worker thread a group, where torch starts two, and what that costs.

    python -m benchmarks.gloo_workers

First one rank makes all-gathers as a DTensor does, and all-reduces, 200 in flight, with one worker and with two: how
many it gets through in 10 s, or the signal that ends it before. Then two ranks train a gpt, one thread each, with one
worker and with two by turns: the median step with one relative to that with two, and the lowest and highest of rounds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from signal import Signals
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from perfkit.measure.rank.run_rank import limit_gloo_workers
from perfkit.measure.rank.train_step import train_step
from perfkit.techniques.apply import apply_all
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.parallel.ddp import Ddp
from perfkit.techniques.parallel.tp import Tp
from perfkit.techniques.parallel.zero23 import Zero3
from perfkit.workloads.gpt import Gpt
from perfkit.workloads.workload import join_batches

WORKERS = (1, 2)
TECHNIQUES: dict[str, Technique] = {"ddp": Ddp(), "zero3": Zero3(), "tp": Tp()}
SECONDS = 10
WARM_UP = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--in-flight", type=int, choices=WORKERS, help=argparse.SUPPRESS)  # by itself, to be ended
    given = parser.parse_args()
    if given.in_flight:
        print(in_flight(given.in_flight))
        return
    for workers in WORKERS:
        command = [sys.executable, "-m", "benchmarks.gloo_workers", "--in-flight", str(workers)]
        start = perf_counter()
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode < 0:
            said = f"ended by {Signals(-ended.returncode).name} after {perf_counter() - start:.1f} s"
        else:
            said = f"{int(ended.stdout):,} collectives"
        print(f"workers: {workers}: {said}")
    for name in TECHNIQUES:
        taken = [[step_s(name, workers, given.steps) for workers in WORKERS] for _ in range(given.rounds)]
        ratios = [one / two for one, two in taken]
        print(f"{name:6} {median(ratios):.3f} [{min(ratios):.3f}, {max(ratios):.3f}]")


def in_flight(workers: int) -> int:
    """How many collectives one rank gets through."""
    with tempfile.TemporaryDirectory() as folder:
        join(0, 1, folder, workers)
        group = dist.group.WORLD
        assert group is not None
        reduced, part, whole = torch.ones(1), torch.ones(1), torch.ones(1)
        count = 0
        end = perf_counter() + SECONDS
        while perf_counter() < end:
            works = []
            for _ in range(100):
                works.append(group.allreduce([reduced]))
                works.append(group.allgather_into_tensor_coalesced([whole], [part]))
            for work in works:
                work.wait()
            count += len(works)
        dist.destroy_process_group()
        return count


def step_s(technique: str, workers: int, steps: int) -> float:
    """The median step of the slower rank."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (technique, workers, steps, folder), nprocs=2)
        return max(json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(2))


def rank_main(rank: int, technique: str, workers: int, steps: int, folder: str) -> None:
    torch.set_num_threads(1)
    join(rank, 2, folder, workers)
    workload = Gpt(size="nano", seq_len=128, batch_size=4).build()
    assert workload.make_batch is not None
    torch.manual_seed(0)
    state = TrainState(workload, workload.build_model(), torch.device("cpu"), World(rank=rank, size=2))
    state = apply_all((TECHNIQUES[technique],), state).state
    taken = []
    for step in range(WARM_UP + steps):
        made = [workload.make_batch(torch.Generator().manual_seed(2 * step + each)) for each in state.batches_of_ranks]
        batches = [join_batches(made)]
        dist.barrier()
        start = perf_counter()
        train_step(state, batches, step)
        taken.append(perf_counter() - start)
    Path(folder, f"{rank}.json").write_text(json.dumps(median(taken[WARM_UP:])))
    dist.destroy_process_group()


def join(rank: int, size: int, folder: str, workers: int) -> None:
    if workers == 1:
        limit_gloo_workers()
    store = f"file://{folder}/rendezvous"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=timedelta(minutes=2))


if __name__ == "__main__":
    main()
