"""What watching a loop costs it: steps beside ones that nothing watches, in blocks by turns in one process.

    python -m benchmarks.attach_overhead [--processes 10] [--only always-on] [--step-ms 20 100] [--out FOLDER]

Each process trains a small network whose depth is chosen, as it starts, so that a step takes about as long as asked. It
runs blocks of steps, watched and not by turns (ABBA), with steps in between that are not measured: whatever attaches
warms up in them. A process gives one figure, the median over pairs of blocks of the ratio of their median step times,
and the same for the process's CPU time a step: a block's mean, so that what comes once a second is in it. The ratio and
its 95 % interval are over processes. `nothing` is watched by nothing in both blocks: what it shows is noise.

The absolute cost is measured where there is little to disturb it, on a step of a fraction of a millisecond
(`--step-ms 0.3`), as CPU time a step. Run it on a quiet machine.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from math import ceil, log
from pathlib import Path

import msgspec
import torch
from torch import nn
from torch.profiler import ProfilerActivity
from torch.utils.data import DataLoader, TensorDataset

from perfkit.analysis.model.estimate import Difference
from perfkit.analysis.suite.compare import compare_to_baseline
from perfkit.attach.host.launcher_env import STACKS_HZ
from perfkit.attach.live.live_watch import open_watch
from perfkit.attach.live.trace_triggers import REASONS, TraceTriggers
from perfkit.core.files import read_json, write_json
from perfkit.core.spec import Schedule, Struct
from perfkit.instruments.stacks.own_stacks import sample_own_stacks
from perfkit.store.live import LIVE_FILE, LiveStart

WIDTH = 256
BATCH = 32
SETTLE = 24  # steps before those that are measured: what attaches warms up in them
BLOCK_S = 3.0  # a block holds whole periods of what comes once a second
RESULT = "attach_overhead.json"
LEAST_STEPS = 30  # of a block
MEASURED_STEPS = 200  # of each side in a process, at least
TRACED_STEPS = 60  # the same where all of them are traced and written
FOREVER = 10**9
TITLE = """# What watching a loop costs it

    python -m benchmarks.attach_overhead --out benchmarks/results

Watched over not watched, geometric mean over processes with its 95 % interval: a process gives the median over pairs of
blocks. CPU time is the process's, all of its threads. `nothing` is watched by nothing on both sides.

"""

# Called where a step of the loop ends.
StepEnd = Callable[[], None]


class Residual(nn.Module):
    """A layer whose activations neither vanish nor grow with depth: arithmetic on tiny numbers is many times slower."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = x + nn.functional.gelu(self.linear(self.norm(x)))
        return added


@dataclass(frozen=True)
class Trained:
    """A network, its optimizer, and a loader that begins anew when it is through."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: Iterator[list[torch.Tensor]]

    def step(self) -> None:
        inputs, targets = next(self.batches)
        loss = (self.model(inputs) - targets).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


Instrument = Callable[[Trained, Path, int], AbstractContextManager[StepEnd]]


@contextmanager
def nothing(_trained: Trained, _folder: Path, _steps: int) -> Iterator[StepEnd]:
    yield lambda: None


@contextmanager
def watch_alone(_trained: Trained, folder: Path, _steps: int) -> Iterator[StepEnd]:
    """The always-on watch called by hand, without the hooks that find the steps."""
    start = LiveStart(
        time_s=time.time(), pid=0, hostname="", name="", device_name="", flops_per_step=1e9, peak_flops=1e12
    )
    triggers = TraceTriggers(REASONS, folder)
    watch = open_watch(folder / LIVE_FILE, start, torch.device("cpu"), triggers=triggers, units_per_step=BATCH)
    watch.start(time.perf_counter_ns())

    def end() -> None:
        watch.step(time.perf_counter_ns())

    yield end
    watch.close("done")


@contextmanager
def always_on(trained: Trained, folder: Path, _steps: int) -> Iterator[StepEnd]:
    from perfkit.attach.profile import profile

    schedule = Schedule(warmup=SETTLE // 3, max_warmup=SETTLE // 3, timed=SETTLE // 3)
    with profile(
        folder,
        model=trained.model,
        optimizer=trained.optimizer,
        schedule=schedule,
        always_on=True,
        report=False,
        stacks=None,
    ):
        yield lambda: None


@contextmanager
def idle(trained: Trained, folder: Path, _steps: int) -> Iterator[StepEnd]:
    """Attached with all hooks, and nothing on but the clock."""
    from perfkit.attach.profile import profile

    schedule = Schedule(warmup=SETTLE, timed=FOREVER)
    with profile(
        folder, model=trained.model, optimizer=trained.optimizer, schedule=schedule, report=False, stacks=None
    ):
        yield lambda: None


@contextmanager
def stacks(_trained: Trained, folder: Path, _steps: int) -> Iterator[StepEnd]:
    """While stacks are sampled from outside; nothing else is attached."""
    folder.mkdir(parents=True)
    with sample_own_stacks(folder, STACKS_HZ, lambda _: None):
        yield lambda: None


@contextmanager
def stacks_python(trained: Trained, folder: Path, steps: int) -> Iterator[StepEnd]:
    """The same, of steps that do some plain Python besides."""
    with stacks(trained, folder, steps):
        yield _python


@contextmanager
def python(_trained: Trained, _folder: Path, _steps: int) -> Iterator[StepEnd]:
    yield _python


def _python() -> None:
    """Some 20 ms of plain Python."""
    total = 0
    for number in range(300_000):
        total += number % 3


@contextmanager
def tracing(trained: Trained, folder: Path, steps: int) -> Iterator[StepEnd]:
    """While perfkit traces all the steps that are measured."""
    from perfkit.attach.profile import profile

    schedule = Schedule(warmup=2, max_warmup=2, timed=2, memory=0, trace=steps + SETTLE)
    with profile(folder, model=trained.model, optimizer=trained.optimizer, schedule=schedule, report=False):
        yield lambda: None


@contextmanager
def torch_profiler(_trained: Trained, _folder: Path, _steps: int) -> Iterator[StepEnd]:
    """torch.profiler with the options that perfkit traces with."""
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], record_shapes=True):
        yield lambda: None


@dataclass(frozen=True)
class Case:
    """`watched` against `reference`; `limits` are the highest ratio of wall times by step time in milliseconds."""

    watched: Instrument
    reference: Instrument
    limits: dict[float, float]
    steps: int = MEASURED_STEPS
    block_s: float | None = None  # else what is asked for


CASES = {
    "nothing": Case(nothing, nothing, {}),
    "watch alone": Case(watch_alone, nothing, {}),
    "always-on": Case(always_on, nothing, {20: 1.005}),
    "idle": Case(idle, nothing, {20: 1.01, 100: 1.01}),
    "stacks": Case(stacks, nothing, {20: 1.02}),
    "stacks, Python": Case(stacks_python, python, {20: 1.02}),
    "tracing": Case(tracing, torch_profiler, {20: 1.0, 100: 1.0}, steps=TRACED_STEPS, block_s=0),
}


class Block(Struct):
    """Seconds a step: the median on the wall, and the mean of the process's CPU time."""

    steps: int
    wall_s: float
    cpu_s: float


class Process(Struct):
    """Blocks of one process, in pairs."""

    reference: tuple[Block, ...]
    watched: tuple[Block, ...]


class Cost(Struct):
    """A case at a step time."""

    case: str
    step_ms: float
    processes: tuple[Process, ...]


class Result(Struct):
    """What is written to `attach_overhead.json`."""

    torch: str
    costs: tuple[Cost, ...]


def train(step_ms: float) -> Trained:
    """A network deep enough for a step to take about `step_ms`, warmed up."""
    torch.set_num_threads(1)
    depth = 2
    for _ in range(3):
        trained = _build(depth)
        for _ in range(5):
            trained.step()
        depth = max(1, round(depth * step_ms / 1e3 / _block(trained.step, lambda: None, 15).wall_s))
    return _build(depth)


def _build(depth: int) -> Trained:
    torch.manual_seed(0)
    model = nn.Sequential(*(Residual() for _ in range(depth)))
    loader = DataLoader(TensorDataset(*torch.randn(2, 64 * BATCH, WIDTH)), batch_size=BATCH)
    return Trained(model, torch.optim.AdamW(model.parameters()), _endless(loader))


def _endless(loader: DataLoader[tuple[torch.Tensor, ...]]) -> Iterator[list[torch.Tensor]]:
    while True:
        yield from loader


def _block(step: Callable[[], None], end: StepEnd, steps: int) -> Block:
    walls = []
    cpu = time.process_time()
    for _ in range(steps):
        before = time.perf_counter()
        step()
        end()
        walls.append(time.perf_counter() - before)
    return Block(steps=steps, wall_s=statistics.median(walls), cpu_s=(time.process_time() - cpu) / steps)


def measure(case: Case, step_ms: float, folder: Path, block_s: float) -> Process:
    """The blocks of this process."""
    trained = train(step_ms)
    steps = max(LEAST_STEPS, ceil((block_s if case.block_s is None else case.block_s) * 1e3 / step_ms))
    blocks: dict[bool, list[Block]] = {False: [], True: []}
    for pair in range(max(2, ceil(case.steps / steps))):
        for watched in (False, True) if pair % 2 == 0 else (True, False):
            instrument = case.watched if watched else case.reference
            with instrument(trained, folder / f"{pair}{watched}", steps) as end:
                _block(trained.step, end, SETTLE)
                blocks[watched].append(_block(trained.step, end, steps))
    return Process(reference=tuple(blocks[False]), watched=tuple(blocks[True]))


def run_process(name: str, step_ms: float, block_s: float) -> Process:
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.attach_overhead", "--process", name, "--step-ms", str(step_ms)]
    done = subprocess.run([*command, "--block-s", str(block_s)], stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Process)


def difference(cost: Cost, field: str) -> Difference:
    """The ratio over processes of a field of `Block`."""
    ratios = [
        statistics.median(
            getattr(on, field) / getattr(off, field) for off, on in zip(process.reference, process.watched, strict=True)
        )
        for process in cost.processes
    ]
    slowdown = compare_to_baseline("not watched", [log(ratio) for ratio in ratios])
    assert slowdown is not None
    return slowdown


def table(costs: list[Cost]) -> str:
    """Markdown."""
    lines = [
        "| case | step | step time | CPU time | CPU time added a step | limit | |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for cost in costs:
        wall, cpu = difference(cost, "wall_s"), difference(cost, "cpu_s")
        limit = CASES[cost.case].limits.get(cost.step_ms)
        step = statistics.median(block.wall_s for process in cost.processes for block in process.reference)
        lines.append(
            f"| {cost.case} | {step * 1e3:.3g} ms | {_shown(wall)} | {_shown(cpu)} | {_added_us(cost):.1f} us "
            f"| {'' if limit is None else f'{limit:.3f}'} | {'' if limit is None else _judged(wall, limit)} |"
        )
    return "\n".join(lines) + "\n"


def _added_us(cost: Cost) -> float:
    pairs = [pair for process in cost.processes for pair in zip(process.reference, process.watched, strict=True)]
    return statistics.median(on.cpu_s - off.cpu_s for off, on in pairs) * 1e6


def _shown(slowdown: Difference) -> str:
    if slowdown.low is None or slowdown.high is None:
        return f"{slowdown.ratio:.4f}"
    return f"{slowdown.ratio:.4f} ({slowdown.low:.4f} to {slowdown.high:.4f})"


def _judged(slowdown: Difference, limit: float) -> str:
    if slowdown.low is None or slowdown.high is None:
        return "one process decides nothing"
    if slowdown.high <= limit:
        return "within"
    return "OVER" if slowdown.low > limit else "inconclusive"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--only", choices=CASES, action="append", help="this case; may be given several times")
    parser.add_argument("--step-ms", type=float, nargs="+", default=[20.0, 100.0])
    parser.add_argument("--block-s", type=float, default=BLOCK_S, help="least duration of a block")
    parser.add_argument("--out", type=Path, help="folder for attach_overhead.md and .json")
    parser.add_argument("--process", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        with tempfile.TemporaryDirectory() as folder:
            measured = measure(CASES[options.process], options.step_ms[0], Path(folder), options.block_s)
        sys.stdout.buffer.write(msgspec.json.encode(measured))
        return
    by_case: dict[tuple[str, float], list[Process]] = {
        (name, step_ms): [] for name in options.only or CASES for step_ms in options.step_ms
    }
    for _ in range(options.processes):  # by turns, so that a machine that drifts favours no case
        for (name, step_ms), processes in by_case.items():
            processes.append(run_process(name, step_ms, options.block_s))
    costs = [
        Cost(case=name, step_ms=step_ms, processes=tuple(processes)) for (name, step_ms), processes in by_case.items()
    ]
    print(table(costs))
    if options.out:
        costs = [*_kept(options.out / RESULT, costs), *costs]
        (options.out / "attach_overhead.md").write_text(TITLE + table(costs), encoding="utf-8")
        write_json(options.out / RESULT, Result(torch=version("torch"), costs=tuple(costs)))


def _kept(path: Path, new: list[Cost]) -> list[Cost]:
    """What an earlier run measured with the same torch, and this one did not."""
    if not path.exists() or (earlier := read_json(path, Result)).torch != version("torch"):
        return []
    measured = {(cost.case, cost.step_ms) for cost in new}
    return [cost for cost in earlier.costs if (cost.case, cost.step_ms) not in measured]


if __name__ == "__main__":
    main()
