"""From what was asked for to the list of runs: variants, their world sizes and baselines, and the order of repeats."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perfkit.devices.visible import lacking
from perfkit.errors import UsageError
from perfkit.spec import LaunchSpec, RunSpec, Schedule, TechniqueSpec, WorkloadSpec

PASSES = ("trace", "memory", "evidence")
BASELINE_PASSES = (*PASSES, "echo")
Techniques = tuple[TechniqueSpec, ...]
Refusal = Callable[[Techniques, str, str], str]  # why they do not run on a kind of device in a dtype, empty if they do


@dataclass(frozen=True, kw_only=True)
class BenchRequest:
    """What `perfkit bench` was asked for.

    `world_size` None lets techniques that need several ranks run with as many as they need, and all others
    with one. `threads` None divides the CPU's cores among the ranks.
    """

    workload: WorkloadSpec
    variants: tuple[Techniques, ...]
    device: str
    device_count: int
    cores: int
    dtype: str = "fp32"
    seed: int = 0
    accumulation: int = 1
    schedule: Schedule = field(default_factory=Schedule)
    repeats: int = 3
    world_size: int | None = None
    threads: int | None = None
    timeout_s: float = 600.0
    memory_limit_bytes: int | None = None


@dataclass(frozen=True)
class ScheduledRun:
    """One launch: `skip` is set where the variant cannot run here, with the reason."""

    spec: RunSpec
    repeat: int
    skip: str = ""


@dataclass(frozen=True)
class BenchSchedule:
    """All runs in the order they are launched, and for each variant the one it is compared with."""

    variants: tuple[str, ...]
    baselines: dict[str, str]
    runs: tuple[ScheduledRun, ...]


def bench_schedule(
    request: BenchRequest, min_world_size: Callable[[Techniques], int], refusal: Refusal = lambda *_: ""
) -> BenchSchedule:
    """Baselines first, one for every world size in use: sharded training is compared with plain data parallelism.

    Repeats are interleaved and every other round is reversed, so that a drifting machine favours no variant.
    Instruments run in the first round only; later rounds add processes to the timing.
    """
    chosen: dict[str, tuple[Techniques, int, str]] = {}
    for techniques in request.variants:
        size, skip = world_size_for(request, min_world_size(techniques))
        skip = skip or refusal(techniques, request.device, request.dtype)
        for item in (techniques,) if skip else ((), techniques):
            chosen.setdefault(_spec(request, item, size, repeat=0).variant, (item, size, skip))
    if not chosen:
        raise UsageError("nothing to run: name at least one technique, such as --technique amp")
    ordered = sorted(chosen, key=lambda name: (chosen[name][1], bool(chosen[name][0])))
    names = {size: name for name, (techniques, size, _) in chosen.items() if not techniques}
    runs = []
    for repeat in range(request.repeats):
        for name in ordered if repeat % 2 == 0 else reversed(ordered):
            techniques, size, skip = chosen[name]
            if skip and repeat:
                continue
            runs.append(ScheduledRun(_spec(request, techniques, size, repeat), repeat, skip))
    baselines = {name: names[size] for name, (_, size, skip) in chosen.items() if not skip}
    return BenchSchedule(variants=tuple(ordered), baselines=baselines, runs=tuple(runs))


def world_size_for(request: BenchRequest, least: int) -> tuple[int, str]:
    """The number of ranks for a variant that needs at least `least`, and why it cannot run here, if so."""
    size = request.world_size
    if size is not None:
        if size < least:
            return size, f"needs at least {least} ranks: run with --world-size {least}"
        return size, "" if request.device == "cpu" else lacking(size, request.device_count)
    if request.device == "cpu" or least == 1:
        return least, ""
    return max(least, request.device_count), lacking(least, request.device_count, least=True)


def _spec(request: BenchRequest, techniques: Sequence[TechniqueSpec], size: int, repeat: int) -> RunSpec:
    first_round = PASSES if techniques else BASELINE_PASSES
    threads = request.threads
    if threads is None and request.device == "cpu":
        threads = max(1, request.cores // size)
    return RunSpec(
        workload=request.workload,
        techniques=tuple(techniques),
        dtype=request.dtype,
        seed=request.seed,
        accumulation=request.accumulation,
        schedule=request.schedule,
        launch=LaunchSpec(
            device=request.device,
            world_size=size,
            threads=threads,
            timeout_s=request.timeout_s,
            memory_limit_bytes=request.memory_limit_bytes,
        ),
        passes=first_round if repeat == 0 else (),
    )
