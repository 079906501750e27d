"""Running a suite: every planned run in its own processes, saved after each, while the parent sleeps."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import torch

import perfkit
from perfkit.core.files import write_bytes
from perfkit.core.note import make_note
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import RunSpec, format_variant_label
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.devices.lookup.ceiling_lookup import resolve_ceilings
from perfkit.instruments.ncu import build_ncu_command, explain_refusal, list_chip_metrics
from perfkit.measure.auto_params import Find, require_given_params
from perfkit.measure.launch.launcher_table import LAUNCHERS
from perfkit.measure.launch.rank_processes import COMPILE_CACHE
from perfkit.measure.launch.run_launch import launch_run
from perfkit.measure.output_dir import refuse_occupied
from perfkit.measure.rank.limits import check_limits, check_sampling
from perfkit.measure.redundant_size import explain_redundant_size
from perfkit.measure.resolve_request import resolve_request
from perfkit.measure.rounds import measure_rounds
from perfkit.measure.run_events import BudgetExceeded, Event, PassStarted, RunFinished, RunStarted
from perfkit.measure.schedule import (
    NOT_SKIPPED,
    BenchSchedule,
    ScheduledRun,
    SkipReason,
    Techniques,
    build_schedule,
    check_launcher,
    choose_world_size,
)
from perfkit.measure.suite_writer import SuiteWriter, create_suite
from perfkit.store.layout import COUNTERS_FILE, Suite, get_counters_path, get_rank_folder, get_run_path
from perfkit.store.lock import lock_folder
from perfkit.store.price import Price
from perfkit.store.request import BenchRequest
from perfkit.techniques import dtypes
from perfkit.techniques.base import rank_sharing
from perfkit.techniques.base.technique import RankRequirement, Technique, classify_inability, explain_inability
from perfkit.techniques.compose import compose_techniques, find_open_technique
from perfkit.workloads.source_digests import compute_source_digests

# Processes of each variant that a bench needs at least: its first run, and one of a round, which takes about as long.
_ROUNDS_NEEDED = 2
_NO_REFUSALS: Mapping[str, str] = {}


def run_bench(
    request: BenchRequest,
    folder: Path,
    *,
    command: str,
    ceilings: DeviceCeilings | None,
    progress: Callable[[Event], None],
    ncu: Path | None = None,
    price: Price | None = None,
    find: Find = require_given_params,
) -> Suite:
    """Run every variant of `request` into `folder`, new or empty but for a lock, and return the suite.

    First each once, with the instruments; then rounds of all that ended well (`perfkit.measure.rounds`). A variant that
    is skipped or fails is not run again. `suite.json` is written before every run, so that a KeyboardInterrupt, which
    is raised again, loses nothing that was measured. With `ncu` (Nsight Compute's command) every variant of one rank is
    then run once more with its kernels counted; why one was not is a warning of the suite. `find` finds what techniques
    leave open (`perfkit.measure.auto_params`).
    """
    check_limits(request.timeout_s, request.memory_limit_bytes)
    check_sampling(request.rounds, request.precision, request.budget_s)
    check_launcher(request)
    refuse_occupied(folder)
    request = resolve_request(request)
    schedule = _build_schedule(request)
    with lock_folder(folder):
        sources = compute_source_digests(request.workload.name)
        making = create_suite(schedule, folder, command=command, ceilings=ceilings, request=request, sources=sources)
        return finish_session(making, progress, ncu, price, find)


def finish_session(
    making: SuiteWriter,
    progress: Callable[[Event], None],
    ncu: Path | None = None,
    price: Price | None = None,
    find: Find = require_given_params,
    compile_caches: Path | None = None,
) -> Suite:
    """Finish the current session: first runs, then rounds, then counters.

    In a variant's first run torch.compile's caches are empty (unless TORCHINDUCTOR_CACHE_DIR names some); later ones
    reuse them, those of other sessions too if their `compile_caches` are given. A `price` is stored before anything
    runs.
    """
    if price is not None:
        making.update(price=price)
    caches = open_compile_caches() if compile_caches is None else nullcontext(compile_caches)
    try:
        with caches as making.compile_caches:
            return _run_remaining(making, progress, ncu, find)
    finally:
        LAUNCHERS.load(making.request.launcher).give_back()


@contextmanager
def open_compile_caches() -> Iterator[Path | None]:
    """A folder for the variants' own caches; None where the user has named one, which is used."""
    if _is_cache_named():
        yield None
    else:
        # A worker that still compiles may write while it is removed.
        with TemporaryDirectory(prefix="perfkit-compile-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)


def _is_cache_named() -> bool:
    """True if the user has named a cache folder other than torch's. Importing bitsandbytes enters that."""
    named = os.environ.get(COMPILE_CACHE)
    if named is None:
        return False
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir  # not sooner: most benches do without

    return bool(named != default_cache_dir())


def _run_remaining(making: SuiteWriter, progress: Callable[[Event], None], ncu: Path | None, find: Find) -> Suite:
    request, refusals = making.request, _NO_REFUSALS
    if any(map(find_open_technique, request.variants)):
        resolved = find(request, progress)
        making.update(
            searches=(*making.suite.searches, *resolved.batches),
            recomputations=(*making.suite.recomputations, *resolved.recomputations),
        )
        request, refusals = resolved.request, resolved.refusals
        making.update_session(request=request)
    schedule = _build_schedule(request, refusals)
    making.plan(schedule)
    begun = time.monotonic()
    first = list(_list_first_runs(making, schedule, request))
    warned = False
    for index, item in enumerate(first):
        making.run(item, progress, index=index, total=len(first))
        needed_s = _ROUNDS_NEEDED * (time.monotonic() - begun) / (index + 1) * len(first)
        if request.budget_s is not None and not warned and needed_s > request.budget_s:
            progress(BudgetExceeded(request.budget_s, needed_s))
            warned = True
    measure_rounds(making, schedule, request, progress, spent_s=time.monotonic() - begun)
    if ncu is not None:
        _collect_counters(making, [item.spec for item in schedule.runs], ncu, progress)
    return making.suite


def _list_first_runs(making: SuiteWriter, schedule: BenchSchedule, request: BenchRequest) -> Iterator[ScheduledRun]:
    """The missing first runs, all of one repeat.

    If times of first runs count, a baseline that already ran is run again with them, without instruments, since timings
    of different days are not comparable.
    """
    repeat = making.next_repeat
    missing = [run for run in schedule.runs if making.first_repeat(run.spec.variant) is None]
    needed = {schedule.baselines.get(run.spec.variant) for run in missing}
    for run in () if request.by_turns else schedule.runs:
        if run.spec.variant in needed and run not in missing:
            yield ScheduledRun(msgspec.structs.replace(run.spec, passes=()), repeat)
    for run in missing:
        yield ScheduledRun(run.spec, repeat, run.skip, run.skip_id)


def _build_schedule(request: BenchRequest, refusals: Mapping[str, str] = _NO_REFUSALS) -> BenchSchedule:
    """The runs of a suite, in which sizes that the workload has anyway are skipped, and what `refusals` has by name."""

    def refusal(techniques: Techniques, device: str, dtype: str) -> SkipReason:
        return (
            SkipReason(refusals.get(format_variant_label(techniques), ""), "skip.no_size")
            or find_refusal(techniques, device, dtype)
            or SkipReason(explain_redundant_size(request, techniques), "skip.redundant_size")
        )

    return build_schedule(request, compute_needed_ranks, refusal)


def schedule_first_run(request: BenchRequest, techniques: Techniques) -> ScheduledRun:
    """The first run of one combination of techniques; of several numbers of ranks on the most, which need the most."""
    schedule = build_schedule(
        msgspec.structs.replace(request, variants=(techniques,)), compute_needed_ranks, find_refusal
    )
    return next(run for run in reversed(schedule.runs) if run.spec.techniques == techniques)


def _collect_counters(making: SuiteWriter, specs: list[RunSpec], ncu: Path, progress: Callable[[Event], None]) -> None:
    """Run each variant that ended well under Nsight Compute; its counts are stored next to the first run's trace."""
    wanted = [
        spec for spec in specs if spec.variant not in making.ended and not _locate_counters(making, spec).is_file()
    ]
    of_chip = list_chip_metrics(ncu) if wanted else ()
    for index, spec in enumerate(wanted):
        label = f"{spec.variant} (counters)"
        progress(RunStarted(index, len(wanted), label, 0))
        run, reason = _collect_variant_counters(spec, making, partial(build_ncu_command, ncu, more=of_chip), progress)
        progress(RunFinished(index, len(wanted), label, 0, run.status, reason, run.seconds))
        if reason:
            text = f"{spec.variant}: no counters: {reason}"
            warnings = (*making.suite.warnings, make_note("run.no_counters", text, variant=spec.variant))
            making.update(warnings=tuple(dict.fromkeys(warnings)))  # retried whenever the suite continues


def _locate_counters(making: SuiteWriter, spec: RunSpec) -> Path:
    """The folder for a variant's counters, next to its first run's trace."""
    first = making.first_repeat(spec.variant)
    assert first is not None, "a variant with runs left has already run"
    return get_rank_folder(making.folder / get_run_path(spec.variant, first), 0) / COUNTERS_FILE


def _collect_variant_counters(
    spec: RunSpec,
    making: SuiteWriter,
    counting: Callable[[Path], tuple[str, ...]],
    progress: Callable[[Event], None],
) -> tuple[RunResult, str]:
    """Collect a variant's counters; return the launch's status, and the reason if there are none."""
    if spec.launch.world_size > 1:
        reason = "ncu runs each kernel several times, and a collective would wait for ranks that run theirs once"
        return RunResult(status=RunStatus.SKIPPED, reason=reason, perfkit=perfkit.__version__), reason
    own = making.folder / get_counters_path(spec.variant)
    if own.exists():  # it was interrupted
        shutil.rmtree(own)
    export = own / COUNTERS_FILE
    schedule = msgspec.structs.replace(spec.schedule, timed=1, energy_s=0.0)
    alone = msgspec.structs.replace(spec.launch, launcher="process")  # ncu starts the rank itself
    once = msgspec.structs.replace(spec, passes=("counters",), schedule=schedule, launch=alone)
    run = launch_run(once, own, lambda name: progress(PassStarted(name)), under=counting(export))
    reason = explain_refusal(export)
    if run.status != RunStatus.OK and (not reason or not export.is_file()):
        reason = f"{run.status}: {run.reason}"
    if not reason:
        write_bytes(_locate_counters(making, spec), export.read_bytes())
    return run, reason


def compute_needed_ranks(techniques: Techniques) -> RankRequirement:
    """The ranks that a combination of techniques needs."""
    return rank_sharing.count_needed_ranks(compose_techniques(techniques))


def find_refusal(techniques: Techniques, device: str, dtype: str) -> SkipReason:
    """Explain why a combination of techniques cannot run, as far as known before a process starts.

    On a GPU a separate process checks the device: this one must not take memory there.
    """
    composed = compose_techniques(techniques)
    try:
        lacking = [_find_inability(technique, device) for technique in composed if is_cpu(device)]
    except Exception:  # noqa: BLE001 - as in `find_dtype_refusal`
        return NOT_SKIPPED
    return next(filter(None, lacking), NOT_SKIPPED) or find_dtype_refusal(techniques, device, dtype)


def _find_inability(technique: Technique, device: str) -> SkipReason:
    reason = explain_inability(technique, torch.device(device))
    return SkipReason(reason, classify_inability(technique)) if reason else NOT_SKIPPED


def find_dtype_refusal(techniques: Techniques, device: str, dtype: str) -> SkipReason:
    """Explain why a combination of techniques does not run in a dtype on a kind of device."""
    composed = compose_techniques(techniques)
    try:
        return SkipReason(dtypes.explain_dtype_refusal(composed, device, dtype), "skip.dtype")
    except Exception:  # noqa: BLE001 - another package's technique: raised anew in the run, it is this variant's alone
        return NOT_SKIPPED


def name_default_folder(workload: str) -> Path:
    """`runs/TIME-WORKLOAD`."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", workload).strip("-")[:60]
    return Path("runs") / f"{datetime.now():%Y-%m-%d-%H%M%S}-{name}"


def resolve_request_ceilings(
    request: BenchRequest, device_name: str, *, progress: Callable[[str], None] = lambda _: None
) -> DeviceCeilings:
    """Resolve the device's ceilings for every number of threads that the runs of `request` will use."""
    runs = build_schedule(request, compute_needed_ranks, find_refusal).runs
    threads = sorted({run.spec.launch.threads for run in runs if run.spec.launch.threads is not None and not run.skip})
    launches = [run.spec.launch for run in runs if not run.skip]
    # What was measured between ranks of one machine says nothing of the network between several.
    ranks = {launch.world_size for launch in launches if launch.world_size > 1 and launch.nodes == 1}
    if not is_cpu(request.device):  # links are measured with a GPU a rank, on GPUs that this process sees
        ranks = {size for size in ranks if size <= request.device_count}
    visible = is_cpu(request.device) or request.device_count > 0
    return resolve_ceilings(
        request.device,
        device_name,
        threads,
        calibrate=request.calibrate and visible,
        progress=progress,
        ranks=sorted(ranks),
    )


def find_technique_refusal(request: BenchRequest, technique: Technique) -> str:
    """Explain why a technique cannot run here in any combination; empty if it may, as far as known before it runs."""
    _, lacking = choose_world_size(request, rank_sharing.count_needed_ranks((technique,)))
    try:
        return lacking.text or explain_inability(technique, torch.device(request.device)) or ""
    except Exception:  # noqa: BLE001 - as in `find_refusal`
        return ""
