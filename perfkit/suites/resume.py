"""Resumes an interrupted suite, or adds to one, under the conditions of its first runs."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import perfkit
from perfkit.analysis.compare.environments import ComparisonEffect, compare_environments
from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.core.record.environment import Environment
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import LaunchSpec
from perfkit.devices.ceilings.ceiling import CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.measure.auto_params import Find, require_given_params
from perfkit.measure.bench import compute_needed_ranks, find_refusal, finish_session
from perfkit.measure.device_probe import bind_request_to_machine, probe_environment
from perfkit.measure.rank.limits import check_limits, check_sampling
from perfkit.measure.resolve_request import resolve_request
from perfkit.measure.run_events import Event
from perfkit.measure.schedule import Techniques, build_schedule
from perfkit.measure.suite_writer import SuiteWriter
from perfkit.store.layout import CEILINGS_FILE, MeasurementSession, Suite
from perfkit.store.price import Price
from perfkit.store.request import BenchRequest, make_rank_fields
from perfkit.store.suite_reader import StoredSuite, read_suite, read_suite_file
from perfkit.workloads.source_digests import find_changed_sources
from perfkit.workloads.workload_table import load_workload, require_trusted_workload

# The conditions that all variants of a suite share, besides the machine and the workload's files.
_CONDITIONS: dict[str, Callable[[BenchRequest], object]] = {
    "workload": lambda request: request.workload.label,
    "device": lambda request: request.device,
    "devices": lambda request: request.device_count,
    "cores": lambda request: request.cores,
    "dtype": lambda request: request.dtype,
    "seed": lambda request: request.seed,
    "accumulate": lambda request: request.accumulation,
    "world-size": lambda request: "given" if request.sizes else "automatic",
    "scaling": lambda request: request.scaling,
    "threads": lambda request: request.threads or "cores / ranks",
    "launcher": lambda request: request.launcher,
    "nnodes": lambda request: request.nodes,
    "memory-limit": lambda request: request.memory_limit_bytes or "none",
    "warmup": lambda request: request.schedule.warmup,
    "steps": lambda request: request.turns or "automatic",
    "energy": lambda request: "yes" if request.schedule.energy_s else "no",
}

Ask = Callable[[LaunchSpec], Environment]


@dataclass(frozen=True)
class OpenedSuite:
    """A suite to continue.

    `request` is that of the next session or, unless `new`, of the last one. `gone` are the paths of runs to repeat,
    `left_out` the requested variants that have failed.
    """

    stored: StoredSuite
    request: BenchRequest
    gone: tuple[str, ...]
    new: bool
    left_out: tuple[str, ...] = ()

    @property
    def whole(self) -> BenchRequest:
        """The request with the variants of all sessions."""
        return _merge_all_variants(self.stored.suite, self.request)


def read_first_request(folder: Path) -> BenchRequest:
    """Read a suite's first request, with the numbers of ranks of all sessions.

    Raises `UsageError` where none is recorded, or where its workload is code that the user has not named, and
    `RunFormatError` if the folder is not a suite.
    """
    suite = read_suite_file(folder)
    return _merge_world_sizes(suite, _get_session_request(folder, suite, 0))


def read_last_request(folder: Path) -> BenchRequest:
    """Read the request of a suite's last session, which an interrupted suite continues; raises as
    `read_first_request`."""
    return _get_session_request(folder, read_suite_file(folder), -1)


def read_whole_request(folder: Path) -> BenchRequest:
    """Read a suite's first request, with the variants of all sessions."""
    suite = read_suite_file(folder)
    return _merge_all_variants(suite, _get_session_request(folder, suite, 0))


def open_to_resume(folder: Path, *, ask: Ask = probe_environment) -> OpenedSuite:
    """Open an interrupted suite: unfinished runs are repeated, and its last session continues.

    Raises:
        UsageError: the machine or the workload has changed; the message names every key, and nothing was touched.
        RunFormatError: `folder` cannot be read.
    """
    stored = read_suite(folder)
    _refuse_other_conditions(stored, bind_request_to_machine(read_first_request(folder)), ask)
    return OpenedSuite(stored, _get_session_request(folder, stored.suite, -1), _list_unfinished_runs(stored), new=False)


def open_to_extend(
    folder: Path, request: BenchRequest, *, failed: bool = False, ask: Ask = probe_environment
) -> OpenedSuite:
    """Open a suite to add the variants of `request`, and to repeat unfinished and, with `failed`, failed runs.

    `request` may differ from `read_first_request` only in measuring time and in more numbers of ranks: its variants are
    then measured together on all of the suite's, since timings of different days are not comparable. A skipped variant
    is tried again; a failed one is left out without `failed`. Raises what `open_to_resume` does, and a `UsageError` if
    there is nothing to do.
    """
    check_limits(request.timeout_s, request.memory_limit_bytes)
    check_sampling(request.rounds, request.precision, request.budget_s)
    stored = read_suite(folder)
    request = resolve_request(_merge_world_sizes(stored.suite, request))
    named, broken = _map_named_variants(request), _list_failed_runs(stored)
    left_out: tuple[str, ...] = ()
    if not failed:
        left_out, broken = _list_failed_variants(stored, named, broken), ()
    if left_out:
        kept = tuple(techniques for name, techniques in named.items() if name not in left_out)
        if not kept:
            names = ", ".join(left_out)
            raise UsageError(f"{folder}: {names} failed in this suite; add --retry failed to repeat failed runs")
        request = msgspec.structs.replace(request, variants=kept)
    gone = (*_list_unfinished_runs(stored), *broken, *_list_skipped_runs(stored, named))
    wanted = _deduplicate_variants([*request.variants, *_find_repeated_variants(stored, gone, broken)])
    if not wanted:
        raise UsageError(f"{folder}: no failed runs to repeat; name a --technique")
    _refuse_other_conditions(stored, bind_request_to_machine(request), ask)
    return OpenedSuite(stored, msgspec.structs.replace(request, variants=wanted), gone, new=True, left_out=left_out)


def measure_remaining(
    opened: OpenedSuite,
    *,
    command: str,
    ceilings: DeviceCeilings | None,
    progress: Callable[[Event], None],
    ncu: Path | None = None,
    price: Price | None = None,
    find: Find = require_given_params,
    compile_caches: Path | None = None,
) -> Suite:
    """Measure the remaining runs. An interruption keeps results, as in `perfkit.measure.bench.run_bench`; what this has
    of `compile_caches` is as in `perfkit.measure.bench.finish_session`."""
    stored = opened.stored
    ended = {run.variant for run in stored.runs if run.path not in opened.gone and run.run.status != RunStatus.OK}
    making = SuiteWriter(stored.folder, stored.suite, ended)
    making.remove(opened.gone)
    if opened.new:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        session = MeasurementSession(
            created_at=now, command=command, request=opened.request, first_repeat=making.next_repeat
        )
        making.update(sessions=(*stored.suite.sessions, session))
    if ceilings is not None and _list_measured_ceilings(stored.ceilings) <= _list_measured_ceilings(ceilings):
        write_json(stored.folder / CEILINGS_FILE, ceilings)
    return finish_session(making, progress, ncu, price, find, compile_caches)


def _list_measured_ceilings(ceilings: DeviceCeilings | None) -> set[tuple[CeilingLevel, str | None, int | None]]:
    """The measured ceilings: a machine with an empty cache knows fewer than the suite."""
    known = ceilings.ceilings if ceilings is not None else ()
    return {
        (ceiling.level, ceiling.dtype, ceiling.threads) for ceiling in known if ceiling.kind == CeilingKind.MEASURED
    }


def _get_session_request(folder: Path, suite: Suite, session: int) -> BenchRequest:
    request = suite.sessions[session].request if suite.sessions else None
    if request is None:
        raise UsageError(
            f"{folder} does not record its request (an older perfkit, a check or an attached loop wrote it); measure a "
            "new suite with --out, and compare both with `perfkit compare`"
        )
    require_trusted_workload(request.workload, folder)
    return request


def _merge_all_variants(suite: Suite, request: BenchRequest) -> BenchRequest:
    """The request with the variants of all sessions of a suite before its own."""
    asked = [session.request for session in suite.sessions if session.request is not None]
    variants = [variant for session in (*asked, request) for variant in session.variants]
    return _merge_world_sizes(suite, msgspec.structs.replace(request, variants=_deduplicate_variants(variants)))


def _merge_world_sizes(suite: Suite, request: BenchRequest) -> BenchRequest:
    """The request with the numbers of ranks of all sessions of a suite and its own."""
    asked = [session.request for session in suite.sessions if session.request is not None]
    sizes = sorted({size for session in (*asked, request) for size in session.sizes})
    return msgspec.structs.replace(request, **make_rank_fields(sizes))


def _refuse_other_conditions(stored: StoredSuite, now: BenchRequest, ask: Ask) -> None:
    differing = tuple(_list_differing_conditions(stored, now, ask))
    if differing:
        keys = "".join(f"\n  {line}" for line in differing)
        raise UsageError(
            f"{stored.folder} was measured under different conditions, so new results would not be comparable:{keys}\n"
            "Measure a new suite with --out, and compare both with `perfkit compare`"
        )


def _list_differing_conditions(stored: StoredSuite, now: BenchRequest, ask: Ask) -> Iterator[str]:
    """Yield each condition in which a suite and the request differ, with both values."""
    before = _get_session_request(stored.folder, stored.suite, 0)
    if stored.suite.perfkit != perfkit.__version__:
        yield f"perfkit: {stored.suite.perfkit} -> {perfkit.__version__}"
    for key, read in _CONDITIONS.items():
        if read(before) != read(now):
            yield f"{key}: {read(before)} -> {read(now)}"
    load_workload(before.workload, device=before.device)
    for name, (old, new) in find_changed_sources(before.workload.name, stored.suite.sources).items():
        yield f"contents of {name}: {old} -> {new}"
    # Not from rounds: their processes are pinned to some of the cores.
    instrumented = (run for run in stored.runs if run.spec.passes)
    recorded = ((run.spec.launch, rank.record.environment) for run in instrumented for rank in run.ranks[:1])
    launch, environment = next(((launch, where) for launch, where in recorded if where is not None), (None, None))
    if launch is not None and environment is not None:
        yield from (
            str(entry)
            for entry in compare_environments(environment, ask(launch))
            if entry.effect is not ComparisonEffect.NOTED
        )


def _list_unfinished_runs(stored: StoredSuite) -> tuple[str, ...]:
    """The runs that started and did not end; the last may have left no files."""
    ended = {run.path for run in stored.runs if run.run.status != RunStatus.INTERRUPTED}
    return tuple(run.path for run in stored.suite.runs if run.path not in ended)


def _list_failed_runs(stored: StoredSuite) -> tuple[str, ...]:
    fine = (RunStatus.OK, RunStatus.SKIPPED, RunStatus.INTERRUPTED)
    return tuple(run.path for run in stored.runs if run.run.status not in fine)


def _map_named_variants(request: BenchRequest) -> dict[str, Techniques]:
    """The requested variants by name, without their baselines."""
    runs = build_schedule(request, compute_needed_ranks, find_refusal).runs if request.variants else ()
    return {run.spec.variant: run.spec.techniques for run in runs if run.spec.techniques in request.variants}


def _list_failed_variants(stored: StoredSuite, named: Collection[str], broken: Iterable[str]) -> tuple[str, ...]:
    bad = set(broken)
    return tuple(dict.fromkeys(run.variant for run in stored.suite.runs if run.path in bad and run.variant in named))


def _list_skipped_runs(stored: StoredSuite, named: Collection[str]) -> tuple[str, ...]:
    """Skipped runs that are requested again: the missing package or device may now be available."""
    return tuple(run.path for run in stored.runs if run.run.status == RunStatus.SKIPPED and run.variant in named)


def _find_repeated_variants(stored: StoredSuite, gone: Iterable[str], broken: Iterable[str]) -> Iterator[Techniques]:
    """The techniques of variants without a first run (ignoring those that are `gone`), of variants whose run is
    `broken`, and of variants that are compared with one of these."""
    suite, without, bad = stored.suite, set(gone), set(broken)
    begun = {run.variant for run in suite.runs if run.path not in without}
    # Not `suite.variants`: a session adds its variants there only once its batch size is found.
    known = {
        run.spec.variant: run.spec.techniques
        for place in range(len(suite.sessions))
        for run in build_schedule(
            _get_session_request(stored.folder, suite, place), compute_needed_ranks, find_refusal
        ).runs
    }
    names = {name for name in known if name not in begun}
    names |= {run.variant for run in suite.runs if run.path in bad}
    names |= {name for name in known if suite.baselines.get(name) in names}
    repeated = [techniques for name, techniques in known.items() if name in names]
    yield from filter(None, repeated)  # with their baselines
    if not any(repeated):
        yield from repeated


def _deduplicate_variants(variants: Iterable[Techniques]) -> tuple[Techniques, ...]:
    seen: list[Techniques] = []
    for variant in variants:  # not hashable
        if variant not in seen:
            seen.append(variant)
    return tuple(seen)
