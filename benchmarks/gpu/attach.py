"""Loops that perfkit is attached to: their step times, the cost of attaching, and their energy.

    python -m benchmarks.gpu.attach --device cuda

`recorded` and `graphs` (under reduce-overhead) compare perfkit's step times of a loop with a clock that waits for the
device. `idle`, `always-on` and `history` (of the allocator) measure the cost of attaching. `triggered` requests a trace
while a loop runs. `energy` compares windows of 0.3 s and 5 s; `bench-energy` runs `perfkit bench --energy`.
"""

import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.gpu.loops import block, overhead, steps_for, training
from benchmarks.gpu.rows import Found, Row, Setting, main, perfkit

if TYPE_CHECKING:
    from perfkit.analysis.model.suite import Variant
    from perfkit.instruments.sensors.sensors import Sensors

NEAR = 0.05  # between perfkit's step time and the one by hand
MOST = {"idle": 1.01, "always-on": 1.005, "history": 1.03}
TRIGGERED_S = 20.0
WINDOWS = {0.3: 6, 5.0: 6}  # seconds -> how many
POLL_S = 2.0


def recorded(setting: Setting, compile_mode: str = "") -> Found:
    """A loop recorded in full, beside its step time by hand."""
    if compile_mode:
        setting.needs_gpu()
    setting.needs_perfkit()
    from perfkit.attach.profile import profile
    from perfkit.core.spec import Schedule

    trained = training(setting.device, compile_mode)
    by_hand = block(trained, steps_for(trained, 2.0)).wall_s
    folder = setting.folder / "recorded"
    schedule = Schedule(warmup=5, max_warmup=10, timed=20)
    with profile(folder, model=trained.model, optimizer=trained.optimizer, schedule=schedule, report=False) as watched:
        while watched.active:
            trained.step()
    (variant,) = _variants(folder)
    figures, wrong = _steps(variant, by_hand, setting.device)
    if compile_mode and not _kernels(variant):
        wrong.append("no kernel was seen in replays of CUDA graphs")
    lines = [f"{name}: {value}" for name, value in figures.items()]
    return Found(figures, lines, wrong)


def watching(name: str, setting: Setting) -> Found:
    """Cost of an attached loop that records nothing (`idle`), or that is watched all the time."""
    setting.needs_perfkit()
    from benchmarks.attach_overhead import always_on, idle

    trained = training(setting.device)
    attach = {"idle": idle, "always-on": always_on}[name]
    cost = overhead(trained, lambda pair: attach(trained, setting.folder / str(pair), 0), setting.device, MOST[name])
    if name == "idle":
        return cost
    logged = _logged_step_s(setting.folder)
    figures = {**cost.figures, "logged_step_s": logged}
    off = abs(logged / cost.figures["watched_step_s"] - 1)
    wrong = [f"the log's step time is off by {off:.1%}"] if setting.device == "cuda" and off > NEAR else []
    return Found(figures, [*cost.lines, f"the log's step time: {logged * 1e3:.2f} ms"], [*cost.wrong, *wrong])


def history(setting: Setting) -> Found:
    """Cost of the allocator's history."""
    setting.needs_gpu()
    setting.needs_perfkit()
    import torch

    from perfkit.instruments.memory.allocator_history import record_allocator_history

    @contextmanager
    def recording(_pair: int) -> Iterator[Callable[[], None]]:
        with record_allocator_history(setting.folder / "history.json.gz", torch.device("cuda", 0)):
            yield lambda: None

    return overhead(training("cuda"), recording, "cuda", MOST["history"])


def triggered(setting: Setting) -> Found:
    """A trace requested by a file while the loop runs."""
    setting.needs_perfkit()
    from perfkit.attach.profile import profile
    from perfkit.core.spec import Schedule
    from perfkit.store.live import TRACE_NOW

    trained = training(setting.device)
    folder = setting.folder / "watched"
    with profile(
        folder, model=trained.model, optimizer=trained.optimizer, report=False, always_on=True, trace_on=("file",),
        schedule=Schedule(warmup=3, max_warmup=3, timed=5, trace=3), stacks=None,
    ):  # fmt: skip
        end = time.monotonic() + 3
        asked = False
        while time.monotonic() < end:
            trained.step()
            if not asked and time.monotonic() > end - 1:
                (folder / TRACE_NOW).touch()
                asked, end = True, time.monotonic() + TRIGGERED_S / 2
    variants = _variants(folder)
    figures = {
        variant.name: {"kernels_per_step": _kernels(variant), "warnings": [note.text for note in variant.warnings]}
        for variant in variants
    }
    wrong = [] if len(variants) > 1 else ["the request led to no trace"]
    wrong += [f"no kernel in the trace of {variant.name}" for variant in variants if not _kernels(variant)]
    return Found({"variants": figures}, [f"{name}: {value}" for name, value in figures.items()], wrong)


def measure_energy(setting: Setting, windows: Mapping[float, int] = WINDOWS, poll_s: float = POLL_S) -> Found:
    """Joules a step by NVML's counter: windows of 0.3 s scatter by the size of the counter's moves."""
    setting.needs_gpu()
    setting.needs_perfkit()
    import torch

    from perfkit.instruments.sensors.sensors import Sensors

    trained = training("cuda")
    sensors = Sensors(str(torch.cuda.get_device_properties(0).uuid))
    if sensors.energy_joules() is None:
        return Found({}, wrong=["the device has no energy counter"])
    figures: dict[str, object] = {}
    for seconds, count in windows.items():
        steps = steps_for(trained, seconds)
        run = partial(block, trained, steps)
        figures[f"joules_per_step_{seconds}s"] = [_joules(run, sensors) / steps for _ in range(count)]
    figures["counter_moves_every_s"] = _interval(lambda: block(trained, steps_for(trained, poll_s)), sensors)
    lines = [f"{name}: {value}" for name, value in figures.items()]
    return Found(figures, lines)


def bench_energy(setting: Setting) -> Found:
    """Joules a step by `perfkit bench --energy`."""
    setting.needs_gpu()
    setting.needs_perfkit()
    folder = setting.folder / "suite"
    command = ("bench", "--device", "cuda", "-w", "gpt:size=small", "-t", "baseline", "--rounds", "1", "--energy")
    subprocess.run(perfkit(*command, "--out", str(folder)), check=True)
    from perfkit.analysis.model.suite import Analysis
    from perfkit.core.files import read_json
    from perfkit.core.record.quantity import Measurement

    (variant,) = read_json(folder / "report.json", Analysis).variants
    quantity = variant.energy_per_step
    if not isinstance(quantity, Measurement):
        return Found({}, wrong=[f"no energy: {quantity.reason}"])
    lines = [f"{quantity.value:.2f} J a step, {quantity.source}"]
    return Found({"joules_per_step": quantity.value, "source": quantity.source}, lines)


def _steps(variant: "Variant", by_hand_s: float, device: str) -> tuple[dict[str, object], list[str]]:
    """The figures of a loop's steps, and their contradictions."""
    from perfkit.analysis.model.estimate import MedianEstimate

    step_s = variant.step_time.value if isinstance(variant.step_time, MedianEstimate) else None
    step = variant.traced_step
    figures: dict[str, object] = {
        "step_s": step_s,
        "by_hand_s": by_hand_s,
        "traced_step_s": step and step.step_s,
        "kernels_per_step": _kernels(variant),
        "modeled_share": step and step.modeled_share,
        "time_split": {part.category: part.share for part in variant.time_split},
        "peak_bytes": None if variant.memory is None else variant.memory.peak_bytes,
        "warnings": [note.text for note in variant.warnings],
    }
    wrong = []
    if step_s is None:
        wrong.append("no step time")
    elif device == "cuda" and abs(step_s / by_hand_s - 1) > NEAR:
        wrong.append(f"a step takes {step_s / by_hand_s:.3f} times what it takes by hand")
    if step is None:
        wrong.append("no step was traced")
    return figures, wrong


def _kernels(variant: "Variant") -> float | None:
    return None if variant.traced_step is None else variant.traced_step.kernels_per_step


def _variants(folder: Path) -> tuple["Variant", ...]:
    from perfkit.analysis.pipeline.suite_analysis import analyze_suite

    return analyze_suite(folder).variants


def _logged_step_s(folder: Path) -> float:
    """The median step over all windows of all logs, in seconds."""
    from perfkit.store.live import LIVE_FILE, LiveWindow, read_live

    lines = (line for path in folder.rglob(LIVE_FILE) for line in read_live(path))
    return statistics.median(line.step_s for line in lines if isinstance(line, LiveWindow))


def _joules(run: Callable[[], object], sensors: "Sensors") -> float:
    before = sensors.energy_joules()
    run()
    after = sensors.energy_joules()
    assert before is not None
    assert after is not None
    return after - before


def _interval(run: Callable[[], object], sensors: "Sensors") -> float | None:
    """The median of the seconds between two moves of the counter, while `run` keeps the device busy."""
    moves: list[float] = []
    done = threading.Event()

    def poll() -> None:
        last = sensors.energy_joules()
        while not done.wait(0.001):
            if (value := sensors.energy_joules()) != last:
                moves.append(time.monotonic())
                last = value

    thread = threading.Thread(target=poll)
    thread.start()
    run()
    done.set()
    thread.join()
    return statistics.median(b - a for a, b in pairwise(moves)) if len(moves) > 1 else None


ROWS = (
    Row("recorded", recorded, 120),
    Row("graphs", partial(recorded, compile_mode="reduce-overhead"), 180),
    *(Row(name, partial(watching, name), 150) for name in ("idle", "always-on")),
    Row("history", history, 150),
    Row("triggered", triggered, 120),
    Row("energy", measure_energy, 150),
    Row("bench-energy", bench_energy, 180),
)

if __name__ == "__main__":
    main("attach", __doc__, ROWS)
