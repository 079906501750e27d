"""Resumes an interrupted suite, or adds to one, under the conditions of its first runs."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import perfkit
from perfkit.analysis.compare.environments import ComparisonEffect, compare_environments
from perfkit.devices.ceiling import CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.errors import UsageError
from perfkit.files import write_json
from perfkit.measure.auto_params import Find, require_given_params
from perfkit.measure.bench import compute_needed_ranks, find_refusal, finish_session
from perfkit.measure.device_probe import bind_request_to_machine, probe_environment
from perfkit.measure.events import Event
from perfkit.measure.limits import check_limits, check_sampling
from perfkit.measure.resolve_request import resolve_request
from perfkit.measure.schedule import Techniques, build_schedule
from perfkit.measure.suite_writer import SuiteWriter
from perfkit.record import Environment, RunStatus
from perfkit.spec import LaunchSpec
from perfkit.store.layout import CEILINGS_FILE, MeasurementSession, Suite
from perfkit.store.price import Price
from perfkit.store.read import StoredSuite, read_suite, read_suite_file
from perfkit.store.request import BenchRequest, make_rank_fields
from perfkit.workloads.source_digests import find_changed_sources
from perfkit.workloads.workload_table import load_workload

# What all variants of a suite have in common, beside the machine and the workload's own files.
_CONDITIONS: dict[str, Callable[[BenchRequest], object]] = {
    "workload": lambda request: request.workload.label,
    "device": lambda request: request.device,
    "devices": lambda request: request.device_count,
    "cores": lambda request: request.cores,
    "dtype": lambda request: request.dtype,
    "seed": lambda request: request.seed,
    "accumulate": lambda request: request.accumulation,
    "world-size": lambda request: "given" if request.sizes else "as many as are needed",
    "scaling": lambda request: request.scaling,
    "threads": lambda request: request.threads or "cores / ranks",
    "launcher": lambda request: request.launcher,
    "nnodes": lambda request: request.nodes,
    "memory-limit": lambda request: request.memory_limit_bytes or "none",
    "warmup": lambda request: request.schedule.warmup,
    "steps": lambda request: request.turns or "as many as pay",
    "energy": lambda request: "yes" if request.schedule.energy_s else "no",
}

Ask = Callable[[LaunchSpec], Environment]


@dataclass(frozen=True)
class OpenedSuite:
    """A suite that may go on: `request` is that of the session to come or, where it is not `new`, of its last one;
    `gone` are the paths of the runs that are made anew, `left_out` the variants that were asked for and have failed."""

    stored: StoredSuite
    request: BenchRequest
    gone: tuple[str, ...]
    new: bool
    left_out: tuple[str, ...] = ()

    @property
    def whole(self) -> BenchRequest:
        """With the variants of all sessions."""
        return _merge_all_variants(self.stored.suite, self.request)


def read_first_request(folder: Path) -> BenchRequest:
    """What a suite was asked for first, on the numbers of ranks of all sessions. Raises `UsageError` where it does not
    tell, `RunFormatError` for no suite."""
    suite = read_suite_file(folder)
    return _merge_world_sizes(suite, _get_session_request(folder, suite, 0))


def read_whole_request(folder: Path) -> BenchRequest:
    """The same with the variants of all sessions."""
    suite = read_suite_file(folder)
    return _merge_all_variants(suite, _get_session_request(folder, suite, 0))


def open_to_resume(folder: Path, *, ask: Ask = probe_environment) -> OpenedSuite:
    """A suite that was interrupted: what has not ended is made anew, and its last session goes on.

    Raises:
        UsageError: this machine or the workload is another by now, with every key; nothing was touched.
        RunFormatError: `folder` cannot be read.
    """
    stored = read_suite(folder)
    _refuse_other_conditions(stored, bind_request_to_machine(read_first_request(folder)), ask)
    return OpenedSuite(stored, _get_session_request(folder, stored.suite, -1), _list_unfinished_runs(stored), new=False)


def open_to_extend(
    folder: Path, request: BenchRequest, *, failed: bool = False, ask: Ask = probe_environment
) -> OpenedSuite:
    """A suite that more is asked of: the variants of `request`, those that never came to an end, and those that
    `failed` where these are asked for.

    `request` may differ from `read_first_request` in how long is measured, and name more numbers of ranks: its variants
    are then measured beside each other on all of the suite's, since another day's machine may be another one. Else it
    may differ in nothing. One of its variants that was skipped is tried again; one that has failed is left out unless
    `failed` is asked for. Raises what `open_to_resume` does, and a `UsageError` where nothing is left to do.
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
            raise UsageError(f"{folder}: {names} failed there: add --retry failed to repeat what failed")
        request = msgspec.structs.replace(request, variants=kept)
    gone = (*_list_unfinished_runs(stored), *broken, *_list_skipped_runs(stored, named))
    wanted = _deduplicate_variants([*request.variants, *_find_repeated_variants(stored, gone, broken)])
    if not wanted:
        raise UsageError(f"{folder}: no run of it has failed, and nothing else was asked for: name a --technique")
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
) -> Suite:
    """Measure what is left. Interrupted, it keeps what was measured, as `perfkit.measure.bench.run_bench` does."""
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
    return finish_session(making, progress, ncu, price, find)


def _list_measured_ceilings(ceilings: DeviceCeilings | None) -> set[tuple[CeilingLevel, str | None, int | None]]:
    """What has been measured: a machine whose cache is empty knows less than the suite does."""
    known = ceilings.ceilings if ceilings is not None else ()
    return {(each.level, each.dtype, each.threads) for each in known if each.kind == CeilingKind.MEASURED}


def _get_session_request(folder: Path, suite: Suite, session: int) -> BenchRequest:
    request = suite.sessions[session].request if suite.sessions else None
    if request is None:
        raise UsageError(
            f"{folder} does not tell what it was asked for: an older perfkit, a check or a watched loop wrote it; "
            "measure a suite of its own with --out, and hold both against each other with `perfkit compare`"
        )
    return request


def _merge_all_variants(suite: Suite, request: BenchRequest) -> BenchRequest:
    """With the variants of all sessions of a suite before its own."""
    asked = [session.request for session in suite.sessions if session.request is not None]
    variants = [variant for each in (*asked, request) for variant in each.variants]
    return _merge_world_sizes(suite, msgspec.structs.replace(request, variants=_deduplicate_variants(variants)))


def _merge_world_sizes(suite: Suite, request: BenchRequest) -> BenchRequest:
    """On the numbers of ranks of all sessions of a suite and its own."""
    asked = [session.request for session in suite.sessions if session.request is not None]
    sizes = sorted({size for each in (*asked, request) for size in each.sizes})
    return msgspec.structs.replace(request, **make_rank_fields(sizes))


def _refuse_other_conditions(stored: StoredSuite, now: BenchRequest, ask: Ask) -> None:
    differing = tuple(_list_differing_conditions(stored, now, ask))
    if differing:
        keys = "".join(f"\n  {line}" for line in differing)
        raise UsageError(
            f"{stored.folder} was measured under other conditions, and what is measured now could not be compared with "
            f"it:{keys}\nMeasure a suite of its own with --out, and hold both against each other: perfkit compare"
        )


def _list_differing_conditions(stored: StoredSuite, now: BenchRequest, ask: Ask) -> Iterator[str]:
    """Each key of the conditions in which a suite and what is asked for now differ, with both values."""
    before = _get_session_request(stored.folder, stored.suite, 0)
    if stored.suite.perfkit != perfkit.__version__:
        yield f"perfkit: {stored.suite.perfkit} -> {perfkit.__version__}"
    for key, of in _CONDITIONS.items():
        if of(before) != of(now):
            yield f"{key}: {of(before)} -> {of(now)}"
    load_workload(before.workload, device=before.device)
    for name, (old, new) in find_changed_sources(before.workload.name, stored.suite.sources).items():
        yield f"contents of {name}: {old} -> {new}"
    # A process of a round is kept to some of the cores, and says so.
    instrumented = (run for run in stored.runs if run.spec.passes)
    told = ((run.spec.launch, rank.record.environment) for run in instrumented for rank in run.ranks[:1])
    launch, environment = next(((each, where) for each, where in told if where is not None), (None, None))
    if launch is not None and environment is not None:
        yield from (
            str(entry)
            for entry in compare_environments(environment, ask(launch))
            if entry.effect is not ComparisonEffect.NOTED
        )


def _list_unfinished_runs(stored: StoredSuite) -> tuple[str, ...]:
    """The runs that were begun and did not end; the last may have left nothing."""
    ended = {run.path for run in stored.runs if run.run.status != RunStatus.INTERRUPTED}
    return tuple(run.path for run in stored.suite.runs if run.path not in ended)


def _list_failed_runs(stored: StoredSuite) -> tuple[str, ...]:
    fine = (RunStatus.OK, RunStatus.SKIPPED, RunStatus.INTERRUPTED)
    return tuple(run.path for run in stored.runs if run.run.status not in fine)


def _map_named_variants(request: BenchRequest) -> dict[str, Techniques]:
    """The variants that are asked for by name, without their baselines."""
    runs = build_schedule(request, compute_needed_ranks, find_refusal).runs if request.variants else ()
    return {run.spec.variant: run.spec.techniques for run in runs if run.spec.techniques in request.variants}


def _list_failed_variants(stored: StoredSuite, named: Collection[str], broken: Iterable[str]) -> tuple[str, ...]:
    bad = set(broken)
    return tuple(dict.fromkeys(run.variant for run in stored.suite.runs if run.path in bad and run.variant in named))


def _list_skipped_runs(stored: StoredSuite, named: Collection[str]) -> tuple[str, ...]:
    """Those that are asked for again: what was missing may be there by now."""
    return tuple(run.path for run in stored.runs if run.run.status == RunStatus.SKIPPED and run.variant in named)


def _find_repeated_variants(stored: StoredSuite, gone: Iterable[str], broken: Iterable[str]) -> Iterator[Techniques]:
    """The techniques of variants that have no first run without those that are `gone`, or whose run was `broken`, and
    of those that are compared with one of them."""
    suite, without, bad = stored.suite, set(gone), set(broken)
    begun = {run.variant for run in suite.runs if run.path not in without}
    # Not `suite.variants`: until a batch size has been found, its session has not entered its variants there.
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
    found = [techniques for name, techniques in known.items() if name in names]
    yield from filter(None, found)  # with their baselines
    if not any(found):
        yield from found


def _deduplicate_variants(variants: Iterable[Techniques]) -> tuple[Techniques, ...]:
    seen: list[Techniques] = []
    for variant in variants:  # their parameters are no keys of a dict
        if variant not in seen:
            seen.append(variant)
    return tuple(seen)
