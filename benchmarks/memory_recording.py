"""What recording memory costs on a CPU: steps under the light recorder, beside ones under nothing, in one process.

    python -m benchmarks.memory_recording [--rounds 9] [--steps 10] [--only gpt] [--out benchmarks/results]

Each round runs the same number of steps under nothing and then under an instrument, so that a drifting machine favours
neither; a round's figure is the ratio of the two medians. Printed are the median over rounds and its range, for the
time on the wall and the process's CPU time, and page faults a step. `after the light recorder` are steps under nothing
once it is done, against steps before anything had recorded. References: perfkit's own recording in every detail (one
step of a memory pass), torch.profiler with shapes and memory, and torch's MemTracker. What an instrument does as it
stops is not part of a step's time. Run it on a quiet machine.
"""

import argparse
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path

from torch.distributed._tools.mem_tracker import MemTracker
from torch.profiler import ProfilerActivity, profile

from perfkit.core.files import write_json
from perfkit.core.spec import Struct
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.instruments.memory.module_marks import mark_modules
from perfkit.instruments.memory.training_state import watch_gradients
from perfkit.instruments.training.trained_models import get_trained_models
from tests.fixtures.memory_oracles.training_step import Trained, train

WORKLOADS = ("gpt", "resnet")
LIMIT = 1.10  # step time while the light recorder is on
TITLE = """# What recording memory costs on a CPU

    python -m benchmarks.memory_recording --out benchmarks/results

Step time under an instrument over step time under nothing: median over rounds, and in brackets the range.

"""

Step = Callable[[], None]
Instrument = Callable[[Trained], AbstractContextManager[Step]]


@contextmanager
def recorder(trained: Trained, *, ops: bool) -> Iterator[Step]:
    """perfkit's recorder as the memory pass uses it: in light steps, or with ops."""
    what = get_trained_models(trained.state)
    with mark_modules(what), watch_gradients(what), AllocationProfiler(ops=ops):
        yield trained.step


@contextmanager
def torch_profiler(trained: Trained) -> Iterator[Step]:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True):
        yield trained.step


@contextmanager
def mem_tracker(trained: Trained) -> Iterator[Step]:
    tracker = MemTracker()
    tracker.track_external(trained.state.model, trained.state.optimizers[""])

    def step() -> None:
        tracker.reset_mod_stats()
        trained.step()

    with tracker:
        yield step


INSTRUMENTS: dict[str, Instrument] = {
    "light recorder": lambda trained: recorder(trained, ops=False),
    "every detail": lambda trained: recorder(trained, ops=True),
    "torch.profiler": torch_profiler,
    "MemTracker": mem_tracker,
}


class Steps(Struct):
    """Medians over some steps: seconds on the wall and of the process's CPU time, and page faults."""

    wall_s: float
    cpu_s: float
    faults: float


class Cost(Struct):
    """An instrument's steps and those without, one entry a round."""

    workload: str
    instrument: str
    off: tuple[Steps, ...]
    on: tuple[Steps, ...]


class Result(Struct):
    """What is written to `memory_recording.json`."""

    torch: str
    steps: int
    costs: tuple[Cost, ...]


def run(step: Step, count: int) -> Steps:
    """Time `count` steps one by one."""
    wall, cpu, faults = [], [], []
    for _ in range(count):
        usage = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        before, cpu_before = time.perf_counter(), time.process_time()
        step()
        wall.append(time.perf_counter() - before)
        cpu.append(time.process_time() - cpu_before)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - usage)
    return Steps(wall_s=statistics.median(wall), cpu_s=statistics.median(cpu), faults=statistics.median(faults))


def measure(workload: str, rounds: int, count: int) -> list[Cost]:
    """All instruments in turn, the light recorder alone first, so that `after` is what it leaves behind."""
    trained = train(workload, "baseline")
    run(trained.step, count)
    untouched = tuple(run(trained.step, count) for _ in range(rounds))
    costs = _interleaved(trained, workload, ["light recorder"], rounds, count)
    after = tuple(run(trained.step, count) for _ in range(rounds))
    costs.append(Cost(workload=workload, instrument="after the light recorder", off=untouched, on=after))
    costs += _interleaved(trained, workload, [name for name in INSTRUMENTS if name != "light recorder"], rounds, count)
    trained.state.close()
    return costs


def _interleaved(trained: Trained, workload: str, names: list[str], rounds: int, count: int) -> list[Cost]:
    off: dict[str, list[Steps]] = {name: [] for name in names}
    on: dict[str, list[Steps]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            off[name].append(run(trained.step, count))
            with INSTRUMENTS[name](trained) as step:
                step()  # what an instrument does once
                on[name].append(run(step, count))
    return [Cost(workload=workload, instrument=name, off=tuple(off[name]), on=tuple(on[name])) for name in names]


def ratios(cost: Cost, field: str) -> list[float]:
    """One a round."""
    return [getattr(on, field) / getattr(off, field) for off, on in zip(cost.off, cost.on, strict=True)]


def table(costs: list[Cost]) -> str:
    """Markdown."""
    lines = [
        "| workload | instrument | step time | CPU time | page faults a step, without | with |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for cost in costs:
        wall, cpu = (_spread(ratios(cost, field)) for field in ("wall_s", "cpu_s"))
        without, with_it = (statistics.median(steps.faults for steps in series) for series in (cost.off, cost.on))
        lines.append(f"| `{cost.workload}` | {cost.instrument} | {wall} | {cpu} | {without:,.0f} | {with_it:,.0f} |")
    return "\n".join(lines) + "\n"


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=10, help="steps of a round under each instrument")
    parser.add_argument("--only", choices=WORKLOADS, help="one workload")
    parser.add_argument("--out", type=Path, help="folder for memory_recording.md and .json")
    options = parser.parse_args()
    costs = [
        cost
        for workload in WORKLOADS
        if options.only in (None, workload)
        for cost in measure(workload, options.rounds, options.steps)
    ]
    print(table(costs))
    for cost in costs:
        if cost.instrument == "light recorder":
            ratio = statistics.median(ratios(cost, "wall_s"))
            print(f"{cost.workload}: {ratio:.3f}, {'within' if ratio <= LIMIT else 'OVER'} the limit of {LIMIT:.2f}")
    if options.out:
        (options.out / "memory_recording.md").write_text(TITLE + table(costs), encoding="utf-8")
        result = Result(torch=version("torch"), steps=options.steps, costs=tuple(costs))
        write_json(options.out / "memory_recording.json", result)


if __name__ == "__main__":
    main()
