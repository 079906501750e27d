"""Makes the list of runs from a request: variants, their world sizes and baselines, and the order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from perfkit.core.errors import UnavailableError, UnknownParameterError, UsageError
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, TechniqueSpec
from perfkit.core.texts.error_text import cap_line
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.machine.shared_gpu import is_sharing_allowed
from perfkit.devices.machine.visible_gpus import explain_missing_gpus
from perfkit.measure.launch.launcher_table import LAUNCHERS, STARTS_HERE
from perfkit.measure.world_sizes import RanksNeeded, build_rank_workload, explain_own_batch, split_by_world_size
from perfkit.store.request import BenchRequest
from perfkit.techniques.base.rank_sharing import explain_lacking_ranks
from perfkit.techniques.base.technique import RankRequirement
from perfkit.workloads.user_workload import UserCodeError
from perfkit.workloads.workload_table import load_workload

PASSES = ("trace", "memory", "evidence")
BASELINE_PASSES = (*PASSES, "echo")
VARIANT_PASSES = (*PASSES, "seeded")
Techniques = tuple[TechniqueSpec, ...]


class SkipReason(NamedTuple):
    """Why a variant cannot run, and the stable id of the reason; false if it can."""

    text: str = ""
    id: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)


NOT_SKIPPED = SkipReason()
Refusal = Callable[[Techniques, str, str], SkipReason]  # of techniques on a kind of device in a dtype


@dataclass(frozen=True)
class ScheduledRun:
    """One launch: `skip` is set where the variant cannot run here, with the reason and its id."""

    spec: RunSpec
    repeat: int
    skip: str = ""
    skip_id: str = ""


@dataclass(frozen=True)
class BenchSchedule:
    """The first run of every variant, in launch order, and each variant's reference."""

    variants: tuple[str, ...]
    baselines: dict[str, str]
    runs: tuple[ScheduledRun, ...]

    def select_round(self, repeat: int) -> tuple[ScheduledRun, ...]:
        """The runs of a round, 0 the first: instruments run in that one only.

        Every other round is reversed, so that a drifting machine favors no variant.
        """
        if repeat == 0:
            return self.runs
        again = tuple(
            ScheduledRun(msgspec.structs.replace(run.spec, passes=()), repeat) for run in self.runs if not run.skip
        )
        return again if repeat % 2 == 0 else again[::-1]


def build_schedule(
    request: BenchRequest, needed: RanksNeeded, refusal: Refusal = lambda *_: NOT_SKIPPED
) -> BenchSchedule:
    """Baselines first, one for every world size in use: sharded training is compared with plain data parallelism."""
    chosen: dict[str, ScheduledRun] = {}
    for sized in split_by_world_size(request, needed):
        for techniques in sized.variants:
            size, skip = choose_world_size(sized, needed(techniques))
            skip = (
                skip
                or refusal(techniques, request.device, request.dtype)
                or SkipReason(explain_own_batch(sized, techniques), "skip.own_batch")
                or SkipReason(explain_unbuildable(sized, techniques, size), "skip.sizes")
            )
            for item in (techniques,) if skip else ((), techniques):
                run = ScheduledRun(_build_run_spec(sized, item, size), 0, skip.text, skip.id if skip else "")
                chosen.setdefault(run.spec.variant, run)
    if not chosen:
        raise UsageError("nothing to run; name at least one technique, such as --technique amp")
    runs = sorted(chosen.values(), key=lambda run: (run.spec.launch.world_size, bool(run.spec.techniques)))
    names = {run.spec.launch.world_size: run.spec.variant for run in runs if not run.spec.techniques}
    baselines = {run.spec.variant: names[run.spec.launch.world_size] for run in runs if not run.skip}
    return BenchSchedule(variants=tuple(run.spec.variant for run in runs), baselines=baselines, runs=tuple(runs))


def explain_unbuildable(request: BenchRequest, techniques: Techniques, ranks: int) -> str:
    """Explain why the workload cannot have the sizes of these techniques on so many ranks; empty if it can."""
    workload = build_rank_workload(request, techniques, ranks)
    if workload == request.workload:
        return ""
    try:
        load_workload(workload, device=request.device)
    except UnknownParameterError as error:
        return f"the workload {request.workload.name} has no parameter {error.parameter} to change its size"
    except (UsageError, UnavailableError) as error:
        return str(error)
    except UserCodeError as error:  # whose message is shown with the traceback
        return f"{str(error).splitlines()[0]}: {cap_line(str(error.__cause__))}"
    return ""


def choose_world_size(request: BenchRequest, needed: RankRequirement) -> tuple[int, SkipReason]:
    """Choose the number of ranks, the largest of several, for a variant with these needs, and the reason if it cannot
    run."""
    size, (least, multiple) = max(request.sizes, default=None), needed
    if size is not None:
        lacking = SkipReason(explain_lacking_ranks(needed, size), "skip.world_size")
        return size, lacking or _find_missing_gpus(request, size // request.nodes)
    if is_cpu(request.device) or least == 1:
        return least, NOT_SKIPPED
    most = request.device_count // multiple * multiple
    return max(least, most), _find_missing_gpus(request, least, least=True)


def _find_missing_gpus(request: BenchRequest, ranks: int, *, least: bool = False) -> SkipReason:
    """Explain why this machine has too few GPUs for the ranks, as far as known before they start.

    This process sees nothing of ranks on other machines or in separate tasks: they report it themselves.
    """
    elsewhere = request.launcher not in STARTS_HERE
    if is_cpu(request.device) or elsewhere or (request.device_count and is_sharing_allowed()):
        return NOT_SKIPPED
    return SkipReason(explain_missing_gpus(ranks, request.device_count, least=least), "skip.no_gpu")


def _build_run_spec(request: BenchRequest, techniques: Techniques, size: int) -> RunSpec:
    schedule = shorten_first_run(request.schedule) if request.by_turns else request.schedule
    return RunSpec(
        workload=build_rank_workload(request, techniques, size),
        techniques=techniques,
        dtype=request.dtype,
        seed=request.seed,
        accumulation=request.accumulation,
        schedule=schedule,
        launch=build_launch_spec(request, size),
        passes=VARIANT_PASSES if techniques else BASELINE_PASSES,
        pm_sampling=request.counters == "pm",
    )


def check_launcher(request: BenchRequest) -> None:
    """Raise a `UsageError` if the launcher cannot start the requested ranks."""
    for size in request.sizes or (1,):
        LAUNCHERS.load(request.launcher).check(build_launch_spec(request, size))


def shorten_first_run(schedule: Schedule) -> Schedule:
    """The schedule where rounds measure time: only the compared losses' steps are needed, steady or not."""
    enough = max(1, schedule.parity - schedule.warmup)
    return msgspec.structs.replace(schedule, max_warmup=schedule.warmup, timed=min(schedule.timed, enough))


def build_launch_spec(request: BenchRequest, size: int) -> LaunchSpec:
    """Build the launch of `size` ranks of a suite. On CPUs those of one machine share its cores."""
    threads = request.threads
    if threads is None and is_cpu(request.device):
        threads = max(1, request.cores * request.nodes // size)
    return LaunchSpec(
        device=request.device,
        world_size=size,
        threads=threads,
        timeout_s=request.timeout_s,
        memory_limit_bytes=request.memory_limit_bytes,
        launcher=request.launcher,
        nodes=request.nodes,
        endpoint=request.endpoint,
    )
