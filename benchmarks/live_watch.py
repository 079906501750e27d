"""How often always-on watching raises an alarm for nothing, how soon it sees a slow-down, and what a step costs it.

    python -m benchmarks.live_watch [--series 200] [--out benchmarks/results]

The alarms are simulated: log-normal step times in which each step depends on the one before (first-order
autoregression, 0.47 as measured on a shared machine). The cost is CPU time of the calling thread, less that of reading
the clock, over steps of 20 ms on a clock of its own; all reasons to trace are watched.
"""

import argparse
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.signal import lfilter

from perfkit.attach.live.live_options import LiveOptions
from perfkit.attach.live.live_watch import open_watch
from perfkit.attach.live.step_trend import StepTrend, compute_usual
from perfkit.attach.live.trace_triggers import REASONS, TraceTriggers
from perfkit.core.files import write_json
from perfkit.core.spec import Struct
from perfkit.store.live import LIVE_FILE, LiveStart

STEP_NS = 20e6
CORRELATION = 0.47
STEPS = 100_000
SPREADS = (0.05, 0.15, 0.25, 0.40)
SLOWER = (1.15, 1.30)
SOON = 1000  # steps
OPTIONS = LiveOptions()
TITLE = """# Always-on watching: alarms and cost

    python -m benchmarks.live_watch --out benchmarks/results

"""


class Alarms(Struct):
    """For steps that vary by `spread`: per 100,000 steps without a change, and the share of slow-downs (by factor)
    that are seen within 1,000 steps."""

    spread: float
    drifts: float
    outliers: float
    seen: dict[str, float]


class Cost(Struct):
    """CPU time in microseconds: the median step, the steps at which statistics are made, and the mean of all."""

    median_us: float
    look_us: float
    mean_us: float


class Result(Struct):
    alarms: tuple[Alarms, ...]
    cost: Cost


def step_times(steps: int, spread: float, seed: int) -> NDArray[np.int64]:
    """In nanoseconds."""
    shocks = np.random.default_rng(seed).standard_normal(steps) * np.sqrt(1 - CORRELATION**2)
    times: NDArray[np.int64] = (STEP_NS * np.exp(spread * lfilter([1], [1, -CORRELATION], shocks))).astype(np.int64)
    return times


def drifts(times: NDArray[np.int64]) -> list[int]:
    """The steps after which a drift is told."""
    trend = StepTrend(OPTIONS)
    windows = times[: len(times) // OPTIONS.window * OPTIONS.window].reshape(-1, OPTIONS.window)
    return [
        number * OPTIONS.window
        for number, window in enumerate(windows.tolist(), 1)
        if trend.add(statistics.median(window))
    ]


def outliers(times: NDArray[np.int64]) -> int:
    """Steps over the limit that the steps before them set."""
    count = 0
    for before, after in pairwise(times.reshape(-1, OPTIONS.recent)):
        limit = compute_usual(before.tolist(), OPTIONS)
        assert limit is not None
        count += int((after > limit.limit).sum())
    return count


def seen_soon(spread: float, factor: float, seed: int) -> bool:
    """Whether a slow-down right after the reference is told within `SOON` steps."""
    before = OPTIONS.window * OPTIONS.reference
    times = step_times(before + SOON, spread, seed)
    times[before:] = (times[before:] * factor).astype(np.int64)
    return bool(drifts(times))


def alarms(spread: float, series: int) -> Alarms:
    still = [step_times(STEPS, spread, seed) for seed in range(max(1, series // 4))]
    return Alarms(
        spread=spread,
        drifts=statistics.fmean(len(drifts(times)) for times in still),
        outliers=statistics.fmean(outliers(times) for times in still[:20]),
        seen={
            f"{factor:.2f}": statistics.fmean(seen_soon(spread, factor, seed) for seed in range(series))
            for factor in SLOWER
        },
    )


def cost(folder: Path) -> Cost:
    """Of `STEPS` calls of `LiveWatch.step`."""
    start = LiveStart(time_s=0.0, pid=0, hostname="", name="", device_name="", flops_per_step=1e9, peak_flops=1e12)
    triggers = TraceTriggers(REASONS, folder)
    watch = open_watch(folder / LIVE_FILE, start, torch.device("cpu"), triggers=triggers, units_per_step=8)
    clock, now, used, looks = time.thread_time_ns, 0, [], []
    empty = []
    for _ in range(10_000):
        before = clock()
        empty.append(clock() - before)
    own = statistics.median(empty)
    watch.start(now)
    look = OPTIONS.period_s * 1e9
    for wall in step_times(STEPS, 0.15, 0).tolist():
        now += wall
        before = clock()
        watch.step(now, 1000)
        took = clock() - before - own
        used.append(took)
        if now >= look:
            looks.append(took)
            look = now + OPTIONS.period_s * 1e9
    watch.close("done")
    return Cost(
        median_us=statistics.median(used) / 1e3,
        look_us=statistics.median(looks) / 1e3,
        mean_us=statistics.fmean(used) / 1e3,
    )


def text(result: Result) -> str:
    """Markdown."""
    slow = "".join(f" {(factor - 1):.0%} slower, seen within {SOON:,} steps |" for factor in SLOWER)
    lines = [
        f"| steps vary by | false drifts in {STEPS:,} steps | outliers in {STEPS:,} steps |{slow}",
        "|---:|---:|---:|" + "---:|" * len(SLOWER),
    ]
    for row in result.alarms:
        seen = "".join(f" {row.seen[f'{factor:.2f}']:.0%} |" for factor in SLOWER)
        lines.append(f"| {row.spread:.0%} | {row.drifts:.2f} | {row.outliers:.1f} |{seen}")
    spent = result.cost
    lines += [
        "",
        f"A step costs {spent.median_us:.2f} us of CPU time (median of {STEPS:,}); one at which statistics are made, "
        f"once a second, {spent.look_us:.0f} us; on average over steps of 20 ms {spent.mean_us:.2f} us, "
        f"{spent.mean_us / (STEP_NS / 1e3):.4%} of a step.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=200, help="simulated series for each row")
    parser.add_argument("--out", type=Path, help="folder for live_watch.md and .json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = cost(Path(folder))
    result = Result(alarms=tuple(alarms(spread, options.series) for spread in SPREADS), cost=measured)
    print(text(result))
    if options.out:
        (options.out / "live_watch.md").write_text(TITLE + text(result), encoding="utf-8")
        write_json(options.out / "live_watch.json", result)


if __name__ == "__main__":
    main()
