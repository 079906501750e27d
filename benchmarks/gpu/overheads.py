"""Cost of attaching to a loop, energy of short and long windows, and lost kernels, each in its short form.

    python -m benchmarks.gpu.overheads --device cuda

`overhead-*` attaches to a loop whose step takes about so many milliseconds: idle, watched all the time, and watched
with a trace on request. `energy` compares windows of 0.3 s and 5 s, `energy-pass` is the pass that
`perfkit bench --energy` adds to a process, and `lost` counts launches without a kernel over profiling sessions. The
long forms are rows of `attach` and `stands`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.attach import measure_energy
from benchmarks.gpu.loops import build_loop, overhead
from benchmarks.gpu.rows import Found, Row, Setting, main
from benchmarks.gpu.stands import count_lost

if TYPE_CHECKING:
    from benchmarks.attach_overhead import Instrument, Trained

STEP_S = (0.02, 0.002)
BLOCK_S = {"cuda": 0.6, "cpu": 0.1}
TRIGGERED_S = {"cuda": 2.5, "cpu": 2.5}  # of a block: the watch looks for requests about once a second
PAIRS = {"cuda": 3, "cpu": 2}
# (Way of attaching, step in seconds) -> highest ratio; of short steps only the added CPU time is of interest.
LIMITS = {("idle", 0.02): 1.01, ("always-on", 0.02): 1.005}
WINDOWS = {0.3: 5, 5.0: 2}  # seconds -> how many
POLL_S = 1.0
IDLE_S = (0, 0, 0, 0, 1, 1, 3)  # after each session
ENERGY_STEPS = 20  # 0.7 s of an H200: some readings of its clock


def measure_overheads(step_s: float, setting: Setting) -> Found:
    """Time a loop with and without each way of attaching."""
    setting.needs_perfkit()
    from benchmarks.attach_overhead import always_on, idle

    device = setting.device
    trained = build_loop(device, step_s)
    ways: dict[str, tuple[Instrument, int, float]] = {
        "idle": (idle, PAIRS[device], BLOCK_S[device]),
        "always-on": (always_on, PAIRS[device], BLOCK_S[device]),
        "triggered": (trace_on_request, 1, TRIGGERED_S[device]),
    }
    figures: dict[str, Any] = {"layers": len(list(trained.model.children()))}
    lines, wrong = [], []
    for name, (attach, pairs, block_s) in ways.items():
        folder = setting.folder / name

        def watch(pair: int, attach: "Instrument" = attach, folder: Path = folder) -> Any:
            return attach(trained, folder / str(pair), 0)

        cost = overhead(trained, watch, device, LIMITS.get((name, step_s)), pairs=pairs, block_s=block_s)
        figures[name] = cost.figures
        lines += [f"{name}, a step of {cost.figures['step_s'] * 1e3:.2f} ms: {line}" for line in cost.lines]
        wrong += [f"{name}: {reason}" for reason in cost.wrong]
    triggered = figures["triggered"]
    added_s = (triggered["watched_step_s"] - triggered["step_s"]) * triggered["steps"]
    traces = count_traces(setting.folder / "triggered")
    figures["triggered"] = {**triggered, "traces": traces, "added_s": added_s}
    lines.append(f"a trace on request adds {added_s:.3f} s to its block; {traces} traces")
    if traces < 2:
        wrong.append("the request led to no trace")
    return Found(figures, lines, wrong)


@contextmanager
def trace_on_request(trained: "Trained", folder: Path, _steps: int) -> Iterator[Callable[[], None]]:
    """Watch all the time, and request a trace with the first measured step."""
    from benchmarks.attach_overhead import SETTLE
    from perfkit.attach.profile import profile
    from perfkit.core.spec import Schedule
    from perfkit.store.live import TRACE_NOW

    ended = 0

    def end() -> None:
        nonlocal ended
        ended += 1
        if ended == SETTLE:
            (folder / TRACE_NOW).touch()

    with profile(
        folder, model=trained.model, optimizer=trained.optimizer, report=False, always_on=True, trace_on=("file",),
        schedule=Schedule(warmup=3, max_warmup=3, timed=5, trace=3), stacks=None,
    ):  # fmt: skip
        yield end


def count_traces(folder: Path) -> int:
    """Traces of all loops below a folder: each loop records one at its start, and one for each request."""
    from perfkit.store.layout import TRACE_FILE

    return sum(len(list(loop.rglob(TRACE_FILE))) for loop in folder.iterdir())


def measure_energy_pass(setting: Setting) -> Found:
    """Joules a step of the pass that `perfkit bench --energy` adds to a process, in a process of its own, and the GPU's
    clock during its timed steps."""
    setting.needs_gpu()
    setting.needs_perfkit()
    from msgspec.structs import asdict

    from perfkit.analysis.compare.device_clocks import describe_clock, summarize_clocks
    from perfkit.core.files import read_json
    from perfkit.core.record.quantity import Measurement
    from perfkit.core.record.rank_record import RankRecord, RunStatus
    from perfkit.core.spec import ENERGY_S, LaunchSpec, RunSpec, Schedule, WorkloadSpec
    from perfkit.measure.launch.run_launch import launch_run
    from perfkit.store.layout import RECORD_FILE, get_rank_folder

    spec = RunSpec(
        workload=WorkloadSpec(name="gpt", params={"size": "small", "batch_size": 2}), passes=(),
        schedule=Schedule(warmup=3, max_warmup=5, timed=ENERGY_STEPS, energy_s=ENERGY_S),
        launch=LaunchSpec(device="cuda", timeout_s=60.0),
    )  # fmt: skip
    run = launch_run(spec, setting.folder / "run", print)
    if run.status != RunStatus.OK:
        return Found({"status": run.status}, wrong=[f"{run.status}: {run.reason}"])
    record = read_json(get_rank_folder(setting.folder / "run", 0) / RECORD_FILE, RankRecord)
    if not isinstance(record.energy, Measurement):
        return Found({}, wrong=[f"no energy: {record.energy and record.energy.reason}"])
    clocks = summarize_clocks([record])
    figures = {
        "joules_per_step": record.energy.value,
        "source": record.energy.source,
        "clocks": clocks and asdict(clocks),
    }
    lines = [f"{record.energy.value:.2f} J a step, {record.energy.source}"]
    if clocks is None or clocks.max_hz is None or clocks.limits is None:
        return Found(figures, lines, ["NVML reports no clock at work, no highest clock, or no reasons for a lower one"])
    lines.append(f"clock: {describe_clock(clocks)}, highest {clocks.max_hz / 1e6:,.0f} MHz, {clocks.readings} readings")
    return Found(figures, lines, [] if clocks.high_hz <= clocks.max_hz else ["a clock is above the highest"])


def measure_short_energy(setting: Setting) -> Found:
    """`attach energy` with fewer windows."""
    return measure_energy(setting, WINDOWS, POLL_S)


# 7 s to import torch and perfkit and to create a context, as rows of the H200 show, and what is asked for.
ROWS = (
    Row("overhead-20ms", partial(measure_overheads, STEP_S[0]), 90, planned_s=31, basis="7 s start, 1,200 steps"),
    Row("overhead-2ms", partial(measure_overheads, STEP_S[1]), 60, planned_s=17, basis="7 s start, 5,000 steps"),
    Row("energy", measure_short_energy, 45, planned_s=20, basis="7 s start, 13 s of windows"),
    Row("energy-pass", measure_energy_pass, 45, planned_s=14, basis="8 s start, 5 s of steps"),
    Row("lost", partial(count_lost, IDLE_S), 40, planned_s=12, basis="7 s start, 5 s idle"),
)  # fmt: skip

if __name__ == "__main__":
    main("overheads", __doc__, ROWS)
