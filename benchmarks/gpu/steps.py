"""Step times alone and by turns, beside their plans and published figures.

    python -m benchmarks.gpu.steps --device cuda

A row trains the variants of a workload, each in a process of its own that holds no instrument but the clock. All
processes start at once and then wait. `alone`: one process after another takes its warm-up and consecutive steps,
while the others wait. `turns`: all take short turns in the order ABBA. Where not all fit into the memory, they are
measured in groups, the baseline in each. Nothing else should run on the machine.

The plans (`planned_steps.json`) were computed beforehand, by `python -m benchmarks.plan_steps`.
"""

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.gpu.published import list_published, peak_flops
from benchmarks.gpu.rows import Found, Row, Setting, main

if TYPE_CHECKING:
    from perfkit.core.record.step_samples import StepSamples
    from perfkit.core.spec import WorkloadSpec
    from perfkit.measure.interleaving.resident_teams import Team

T = TypeVar("T")

PLANS = Path(__file__).parent / "planned_steps.json"
BASELINE = "baseline"
LEVELS_APART = 0.03  # beyond both intervals, between alone and by turns
LIMIT_S = {"cuda": 150.0, "cpu": 600.0}  # of one answer of a process: it may compile
HELD = 1.15  # reserved / allocated bytes: the caching allocator keeps more than the peak
PROCESS_BYTES = 10**9  # beyond the allocator: a Hopper's context was measured to take 742 to 838 MiB


@dataclass(frozen=True)
class Case:
    """The variants of a workload, and how many steps each takes: to warm up, alone, in a turn; and how many turns."""

    argument: str
    variants: tuple[str, ...]
    warmup: int
    alone: int
    turns: int
    turn_steps: int

    @property
    def workload(self) -> "WorkloadSpec":
        from perfkit.core.spec import parse_workload
        from perfkit.workloads.workload_table import WORKLOADS

        return parse_workload(self.argument, WORKLOADS.list_names())


_GPT = (BASELINE, "amp", "amp+flash", "ckpt", "compile")
_RESNET = (BASELINE, "amp", "channels_last", "ckpt", "compile")
CASES = {
    ("gpt", "cuda"): Case("gpt:size=small:batch_size=16", _GPT, warmup=3, alone=8, turns=6, turn_steps=1),
    ("gpt", "cpu"): Case("gpt:size=nano:batch_size=1:seq_len=32", _GPT[:-1], warmup=2, alone=4, turns=4, turn_steps=1),
    ("resnet50", "cuda"): Case(
        "resnet:depth=50:image_size=224:classes=1000:batch_size=64", _RESNET, warmup=6, alone=30, turns=8, turn_steps=5
    ),
    ("resnet50", "cpu"): Case(
        "resnet:image_size=32:batch_size=2", _RESNET, warmup=2, alone=4, turns=4, turn_steps=1
    ),
}  # fmt: skip


@dataclass
class Timed:
    """Seconds of consecutive steps alone and of turns, and why a variant has none."""

    alone: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)
    reason: str = ""


@dataclass(frozen=True)
class Summary:
    """The median in seconds, with the 95 % interval of the mean of logarithms; None with fewer than two values."""

    value: float
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float:
        """Relative; 0 where it is unknown."""
        return 0.0 if self.low is None or self.high is None else (self.high / self.low) ** 0.5 - 1


def measure_case(name: str, setting: Setting) -> Found:
    """Time the variants of a workload and compare them with their plans."""
    setting.needs_perfkit()
    case = CASES[name, setting.device]
    device = _read_device() if setting.device == "cuda" else None
    plan = read_plan(name, device[0]) if device else {"model_flops": None, "variants": {}}
    peaks = {variant: (plan["variants"].get(variant, {}).get("peak_bytes") or 0) for variant in case.variants}
    groups = group_variants(peaks, device[1] if device else math.inf)
    timed = _time_groups(case, groups, setting)
    return compare_timings(name, timed, plan, device and device[0])


def read_plan(name: str, device: str, path: Path = PLANS) -> dict[str, Any]:
    """The plan of a workload on a device of the catalogue; without variants where none was made."""
    plan: dict[str, Any] = json.loads(path.read_text()).get(device, {}).get(name, {"model_flops": None, "variants": {}})
    return plan


def group_variants(peaks: Mapping[str, float], memory_bytes: float) -> list[list[str]]:
    """Variants whose processes fit into the memory together; the baseline, which stays resident, begins each group."""
    need = {name: HELD * peak + PROCESS_BYTES for name, peak in peaks.items()}
    groups = [[BASELINE]]
    for name in peaks:
        if name == BASELINE:
            continue
        if len(groups[-1]) > 1 and sum(need[member] for member in (*groups[-1], name)) > memory_bytes:
            groups.append([BASELINE])
        groups[-1].append(name)
    return groups


def take_turns(members: Sequence[str], turns: int, take: Callable[[str], float | None]) -> dict[str, list[float]]:
    """So many turns of each in the order ABBA; a member whose turn is None has failed and takes no more."""
    taken: dict[str, list[float]] = {name: [] for name in members}
    active = list(members)
    for turn in range(turns):
        for name in list(active if turn % 2 == 0 else reversed(active)):
            seconds = take(name)
            if seconds is None:
                active.remove(name)
            else:
                taken[name].append(seconds)
    return taken


def summarize(seconds: Sequence[float]) -> Summary | None:
    """None of no values."""
    if not seconds:
        return None
    from perfkit.core.sampling import compute_log_interval

    interval = compute_log_interval([math.log(value) for value in seconds]) if len(seconds) > 1 else None
    low, high = (None, None) if interval is None else (math.exp(interval[0]), math.exp(interval[1]))
    return Summary(statistics.median(seconds), low, high)


def compare_timings(name: str, timed: Mapping[str, Timed], plan: Mapping[str, Any], device: str | None) -> Found:
    """The figures of each variant; wrong are those outside their plan's bounds, and those whose two times differ."""
    figures, lines, wrong = {}, [], []
    for variant, times in timed.items():
        alone, turns = summarize(times.alone), summarize(times.turns)
        planned = plan["variants"].get(variant, {})
        flops = plan["model_flops"]
        mfu = flops / alone.value / peak_flops(device, variant) if flops and alone and device else None
        bounds = planned.get("step_s")
        error = bounds["value"] / alone.value - 1 if bounds and alone else None
        figures[variant] = {
            "alone": _describe(alone, times.alone), "turns": _describe(turns, times.turns), "reason": times.reason,
            "mfu": mfu, "planned": planned, "planned_error": error,
            "published": list_published(f"{name}.{variant}", variant) if device else [],
        }  # fmt: skip
        lines.append(f"{variant}: {_show(alone)} alone, {_show(turns)} by turns" + _show_plan(mfu, bounds, error))
        lines += [
            f"    published: MFU {each['mfu']:.1%}, {each['what']} ({each['source']})"
            for each in figures[variant]["published"]
        ]
        if times.reason:
            wrong.append(f"{variant}: {times.reason}")
        if device and alone and bounds and not bounds["low"] <= alone.value <= bounds["high"]:
            wrong.append(f"{variant}: {alone.value / bounds['value']:.2f} times the planned step, outside its bounds")
        if device and alone and turns and are_apart(alone, turns):
            wrong.append(f"{variant}: by turns a step takes {turns.value / alone.value:.3f} times that alone")
    return Found({"device": device, "model_flops": plan["model_flops"], "variants": figures}, lines, wrong)


def are_apart(one: Summary, other: Summary) -> bool:
    """Whether two step times differ by more than their intervals and `LEVELS_APART`."""
    ratio = max(one.value, other.value) / min(one.value, other.value)
    return ratio - 1 > one.half_width + other.half_width + LEVELS_APART


def _time_groups(case: Case, groups: Sequence[Sequence[str]], setting: Setting) -> dict[str, Timed]:
    from perfkit.measure.interleaving import protocol

    timed = {name: Timed() for name in case.variants}
    with _running(case, setting) as teams:

        def ask(name: str, word: str, steps: int) -> list[float]:
            return _note_failure(timed[name], partial(_ask, teams[name], word, steps, setting)) or []

        def take(name: str) -> float | None:
            steps = ask(name, protocol.TURN, case.turn_steps)
            return statistics.median(steps) if steps else None

        for name, team in teams.items():
            _note_failure(timed[name], partial(_wait_ready, team, LIMIT_S[setting.device]))
        for number, group in enumerate(groups):
            for name in group:
                if not timed[name].reason and not timed[name].alone and ask(name, protocol.WARM_UP, case.warmup):
                    timed[name].alone = ask(name, protocol.TURN, case.alone)
                    # Printed now for the log of a row that is ended at its limit.
                    print(f"{name}: {_show(summarize(timed[name].alone))} alone", flush=True)
            active = [name for name in group if not timed[name].reason]
            for name, turns in take_turns(active, case.turns, take).items():
                timed[name].turns += turns
            for name in group:
                if not timed[name].reason and (name != BASELINE or number == len(groups) - 1):
                    teams[name].dismiss()
    return timed


@contextmanager
def _running(case: Case, setting: Setting) -> Iterator[dict[str, "Team"]]:
    from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, parse_variants
    from perfkit.measure.interleaving.resident_teams import Team

    launch = LaunchSpec(device=setting.device, threads=1 if setting.device == "cpu" else None)
    schedule = Schedule(warmup=case.warmup, timed=case.alone)
    teams = {}
    for name in case.variants:
        (techniques,) = parse_variants(name)
        spec = RunSpec(workload=case.workload, techniques=techniques, schedule=schedule, launch=launch, passes=())
        teams[name] = Team(name, spec, setting.folder / name)
    try:
        for team in teams.values():
            team.start()
        yield teams
    finally:
        for team in teams.values():
            team.end()


def _note_failure(timed: Timed, ask: Callable[[], T]) -> T | None:
    """The answer, or None where the process failed, with the reason in `timed`."""
    from perfkit.measure.interleaving.resident_teams import TeamFailedError

    try:
        return ask()
    except TeamFailedError as error:
        timed.reason = str(error)
        return None


def _wait_ready(team: "Team", limit_s: float) -> None:
    from perfkit.measure.interleaving.resident_teams import Conversation, check_ready

    with Conversation([team], time.monotonic() + limit_s, print) as talk:
        (answers,) = talk.wait([team])
    check_ready(team, answers)


def _ask(team: "Team", word: str, steps: int, setting: Setting) -> list[float]:
    """Have a process take steps; their seconds, on the device's clock where it has one."""
    from perfkit.measure.interleaving.resident_teams import Conversation, merge_team_steps

    with Conversation([team], time.monotonic() + LIMIT_S[setting.device], print) as talk:
        team.say(f"{word} {steps}")
        (answers,) = talk.wait([team])
    samples: StepSamples = merge_team_steps(answers)
    return list(samples.device_s or samples.wall_s)


def _read_device() -> tuple[str, int]:
    """The GPU's id in the catalogue and its memory in bytes, from NVML: torch would hold a context in this process."""
    import pynvml

    from perfkit.devices.catalog.catalog import resolve_entry

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return resolve_entry(pynvml.nvmlDeviceGetName(handle)).id, pynvml.nvmlDeviceGetMemoryInfo(handle).total


def _describe(summary: Summary | None, seconds: Sequence[float]) -> dict[str, Any] | None:
    if summary is None:
        return None
    return {"step_s": summary.value, "low": summary.low, "high": summary.high, "seconds": list(seconds)}


def _show(summary: Summary | None) -> str:
    if summary is None:
        return "not measured"
    return f"{summary.value * 1e3:.2f} ms (+- {summary.half_width:.1%})"


def _show_plan(mfu: float | None, bounds: Mapping[str, float] | None, error: float | None) -> str:
    text = "" if mfu is None else f", MFU {mfu:.1%}"
    if bounds is None or error is None:
        return text
    low, value, high = (bounds[key] * 1e3 for key in ("low", "value", "high"))
    return f"{text}; planned {value:.1f} ms ({low:.1f} to {high:.1f}), {error:+.1%}"


# Steps of the H200 (367 and 75 ms) and of the plans; 12 s for processes that start at once, 35 s for Inductor.
ROWS = (
    Row(
        "gpt", partial(measure_case, "gpt"), 150, planned_s=66, basis="12 s start, 35 s compile, 19 s of planned steps"
    ),
    Row("resnet50", partial(measure_case, "resnet50"), 130, planned_s=54, basis="as gpt, with 7 s of planned steps"),
)

if __name__ == "__main__":
    main("steps", __doc__, ROWS)
