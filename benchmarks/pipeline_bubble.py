"""The bubble of pipelines as measured, beside theory.

    python -m benchmarks.pipeline_bubble                     1F1B and GPipe at 2 stages and 8 microbatches
    python -m benchmarks.pipeline_bubble --sleep             the same with blocks that sleep
    python -m benchmarks.pipeline_bubble --schedules gpipe,1f1b,interleaved --microbatches 4,8,16 --steps 40

Every rank is a process with one thread; stages are equal: blocks of a gpt, whose vocabulary is so small that the
output layer takes next to nothing, or blocks that compute nothing and sleep for a time, which takes equally long
whatever else the machine does. Prints for each schedule the share of the pipeline's time in which a rank computes
nothing, on average and on each rank, theory, and the difference, relative to theory. All are medians over steps.

Theory takes messages for nothing and every action for as long as on the other ranks. `by medians` is what the schedule
would wait, were messages nothing, if every action took its median time over all steps: what it has above theory are
stages that are not equal. `by actions` is the same by the times of each step: what it has above `by medians` is time
that varies from action to action. What remains to `measured` is the time of messages and of torch's schedule between
actions. The machine has to be quiet, with a core for every rank.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from perfkit.measure.rank.train_step import train_step
from perfkit.techniques.apply import apply_all
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.parallel.pipeline_schedules import BUBBLE
from perfkit.techniques.parallel.pipeline_steps import BUSY, PIPELINE, PipelineSteps
from perfkit.techniques.parallel.pp import Pp
from perfkit.workloads.gpt import Gpt
from perfkit.workloads.workload import Workload, join_batches, split_batch

WARM_UP = 3
ASLEEP_S = 0.02  # of a block
Actions = list[tuple[str, int, int, float]]  # kind, stage, microbatch and seconds, in the order of a rank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", default="1f1b,gpipe")
    parser.add_argument("--microbatches", default="8")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--size", default="nano", help="of the gpt")
    parser.add_argument("--seq-len", type=int, default=256)
    parser.add_argument("--sleep", action="store_true", help=f"blocks that sleep, {1e3 * ASLEEP_S:g} ms forward")
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before")
    print(f"{'schedule':14} {'m':>3} {'theory':>7} {'measured':>9} {'by rank':>13} {'error':>7} by actions by medians")
    for count in map(int, given.microbatches.split(",")):
        for schedule in given.schedules.split(","):
            found = measured(schedule, count, given)
            bubbles = [median(rank["bubbles"]) for rank in found]
            whole, theory = fmean(bubbles), found[0]["theory"]
            error = f"{whole / theory - 1:+.1%}" if theory else "-"
            by_rank = " ".join(f"{each:.1%}" for each in bubbles)
            by_theory = "-" if theory is None else f"{theory:.1%}"
            by_actions = median(map(bubble_of, zip(*(rank["actions"] for rank in found), strict=True)))
            by_medians = bubble_of([medians(rank["actions"]) for rank in found])
            print(
                f"{schedule:14} {count:3} {by_theory:>7} {whole:9.1%} {by_rank:>13} {error:>7} "
                f"{by_actions:10.1%} {by_medians:10.1%}"
            )


def measured(schedule: str, microbatches: int, given: argparse.Namespace) -> list[dict[str, Any]]:
    """What each rank found."""
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_main, (schedule, microbatches, given, folder), nprocs=given.ranks)
        return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(given.ranks)]


def rank_main(rank: int, schedule: str, microbatches: int, given: argparse.Namespace, folder: str) -> None:
    ranks = given.ranks
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) >= ranks:
        os.sched_setaffinity(0, {rank})
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    batch_size = max(1, microbatches // ranks)  # one sample a microbatch and rank of data parallelism
    model = Gpt(size=given.size, seq_len=given.seq_len, batch_size=batch_size, vocab=16)
    workload = asleep(batch_size) if given.sleep else model.build()
    torch.manual_seed(0)
    state = TrainState(workload, workload.build_model(), torch.device("cpu"), World(rank=rank, size=ranks))
    state = apply_all((Pp(schedule=schedule, microbatches=microbatches),), state).state
    bubbles: list[float] = []
    actions: list[Actions] = []
    for step in range(WARM_UP + given.steps):
        before = dict(state.counters)
        with recorded(state) as found:
            train_step(state, microbatches_of(workload, state, step), step)
        spent = {name: state.counters[name] - before[name] for name in (BUSY, PIPELINE)}
        if step >= WARM_UP:
            bubbles.append(1 - spent[BUSY] / spent[PIPELINE])
            actions.append(found)
    result = {"bubbles": bubbles, "theory": state.facts.get(BUBBLE), "actions": actions}
    Path(folder, f"{rank}.json").write_text(json.dumps(result))
    dist.destroy_process_group()


class _Sleep(torch.autograd.Function):
    """The identity, which takes a time forward and twice that backward, as products do."""

    @staticmethod
    def forward(_ctx: Any, given: torch.Tensor) -> torch.Tensor:
        time.sleep(ASLEEP_S)
        return given.clone()

    @staticmethod
    def backward(_ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(2 * ASLEEP_S)
        return gradient


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        return _Sleep.apply(given * self.scale)


def asleep(batch_size: int, blocks: int = 4, width: int = 8) -> Workload:
    """Training of blocks that sleep."""
    return Workload(
        name="asleep",
        unit="samples",
        units_per_batch=batch_size,
        build_model=lambda: nn.Sequential(*(_Block() for _ in range(blocks))),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.01),
        make_batch=lambda generator: {"x": torch.randn(batch_size, width, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
        blocks=lambda _model: tuple(map(str, range(blocks))),
    )


def medians(steps: Sequence[Actions]) -> Actions:
    """The actions of a step, each with its median time over these steps."""
    return [(*each[0][:3], median(one[3] for one in each)) for each in zip(*steps, strict=True)]


def microbatches_of(workload: Workload, state: TrainState, step: int) -> list[dict[str, torch.Tensor]]:
    assert workload.make_batch is not None
    made = [workload.make_batch(torch.Generator().manual_seed(97 * step + rank)) for rank in state.batches_of_ranks]
    return split_batch(join_batches(made), state.microbatches)


@contextmanager
def recorded(state: TrainState) -> Iterator[Actions]:
    """What the stages of this rank do meanwhile, and how long each action takes."""
    found: Actions = []
    steps = state.engine
    assert isinstance(steps, PipelineSteps)
    action = steps.action

    @contextmanager
    def noted(stage: int, kind: str, number: int) -> Iterator[None]:
        before = steps.busy_s
        with action(stage, kind, number):
            yield
        found.append((kind, stage, number, steps.busy_s - before))

    steps.action = noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        del steps.action


def bubble_of(ranks: Sequence[Actions]) -> float:
    """The mean bubble of ranks that do these actions in their order, each as soon as what it needs is there."""
    last = max(stage for actions in ranks for _, stage, _, _ in actions)
    ends: dict[tuple[str, int, int], float] = {}
    now, at = [0.0] * len(ranks), [0] * len(ranks)
    while any(at[rank] < len(actions) for rank, actions in enumerate(ranks)):
        for rank, actions in enumerate(ranks):
            while at[rank] < len(actions):
                kind, stage, number, seconds = actions[at[rank]]
                needed = [ends.get(each) for each in needs(kind, stage, number, last, ends)]
                if None in needed:
                    break
                now[rank] = max([now[rank], *(end for end in needed if end is not None)]) + seconds
                ends[kind, stage, number] = now[rank]
                at[rank] += 1
    busy = [sum(seconds for _, _, _, seconds in actions) for actions in ranks]
    return 1 - fmean(busy) / max(now)


def needs(kind: str, stage: int, number: int, last: int, ends: dict[tuple[str, int, int], float]) -> Iterator[tuple]:
    """The actions on other stages, or before on its own, that an action waits for."""
    if kind == "F":
        if stage > 0:
            yield "F", stage - 1, number
    elif kind == "W":
        yield "I", stage, number
    elif stage < last:
        after = "I" if ("I", stage + 1, number) in ends or kind == "I" else "B"
        yield after, stage + 1, number


if __name__ == "__main__":
    main()
