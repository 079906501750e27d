"""A suite in the making: its runs are made one by one or by turns, and `suite.json` is written before each."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import perfkit
from perfkit.core.files import read_json, write_json
from perfkit.core.record.quantity import Measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.record.step_samples import StepSamples, merge_slowest_ranks
from perfkit.core.spec import RunSpec
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.devices.machine.machine import list_usable_cpus
from perfkit.instruments.sensors.machine_load import LoadReading, compute_load, read_load
from perfkit.measure.interleaving.core_pinning import choose_round_cores
from perfkit.measure.interleaving.lockstep import step_by_turns
from perfkit.measure.interleaving.resident_teams import Team, TeamFailedError
from perfkit.measure.launch.rank_processes import COMPILE_CACHE, HERE, RankPlace
from perfkit.measure.launch.run_launch import launch_run
from perfkit.measure.output_dir import refuse_occupied
from perfkit.measure.run_events import PassStarted, RunEvent, RunFinished, RunStarted
from perfkit.measure.schedule import BenchSchedule, ScheduledRun
from perfkit.store.layout import (
    CEILINGS_FILE,
    RECORD_FILE,
    RUN_FILE,
    SPEC_FILE,
    SUITE_FILE,
    MeasurementSession,
    Suite,
    SuiteRun,
    get_rank_folder,
    get_run_path,
)
from perfkit.store.request import BenchRequest

Progress = Callable[[RunEvent], None]


class SuiteWriter:
    """A suite whose runs are made on request. Results are kept whatever happens later.

    `ended` are the variants that are not run again: skipped, or failed. `compile_caches` is a folder with separate
    torch.compile caches per variant; None: those of the machine.
    """

    def __init__(self, folder: Path, suite: Suite, ended: Iterable[str] = ()) -> None:
        self.folder = folder
        self.suite = suite
        self.ended = set(ended)
        self.compile_caches: Path | None = None

    def update(self, **fields: object) -> None:
        """Replace fields of the suite and write it."""
        self.suite = msgspec.structs.replace(self.suite, **fields)
        write_json(self.folder / SUITE_FILE, self.suite)

    @property
    def request(self) -> BenchRequest:
        """The request of the current session."""
        request = self.suite.sessions[-1].request
        assert request is not None, "only a suite with a recorded request can continue"
        return request

    def update_session(self, **fields: object) -> None:
        """Replace fields of the session that is on, and write the suite."""
        *before, last = self.suite.sessions
        self.update(sessions=(*before, msgspec.structs.replace(last, **fields)))

    def plan(self, schedule: BenchSchedule) -> None:
        """Enter the planned runs; entries that were only requested, such as a size to be found, are removed."""
        begun = {run.variant for run in self.suite.runs}
        kept = [name for name in self.suite.variants if name in begun or name in schedule.variants]
        self.update(
            variants=tuple(dict.fromkeys((*kept, *schedule.variants))),
            baselines={**self.suite.baselines, **schedule.baselines},
        )

    def first_repeat(self, variant: str) -> int | None:
        """That of the variant's first run, which has its instrumented passes; None before it was begun."""
        return min((run.repeat for run in self.suite.runs if run.variant == variant), default=None)

    @property
    def next_repeat(self) -> int:
        """One that no run has yet."""
        return max((run.repeat + 1 for run in self.suite.runs), default=0)

    def run(
        self, item: ScheduledRun, progress: Progress, place: RankPlace = HERE, index: int = 0, total: int = 1
    ) -> None:
        """Make a run, the `index`-th of `total`, in `place`, unless its variant has ended before."""
        variant = item.spec.variant
        if variant in self.ended:
            return
        before = self._count_runs(variant)
        self._clear_leftovers([variant], item.repeat)
        self._enter_runs([variant], item.repeat)
        if not item.skip:
            progress(RunStarted(index, total, variant, before))
        folder = self.folder / get_run_path(variant, item.repeat)
        run = _launch_run(item, folder, progress, self._add_caches(variant, place))
        progress(RunFinished(index, total, variant, before, run.status, run.reason, run.seconds))
        if run.status != RunStatus.OK:
            self.ended.add(variant)

    def run_by_turns(
        self,
        specs: Sequence[RunSpec],
        repeat: int,
        progress: Progress,
        *,
        round_index: int,
        turns: int | None,
        turns_s: float,
    ) -> bool:
        """Make a run of each spec, all resident together and stepping by turns in this order; whether all ended well.

        As many `turns` of each, or as fit into the time that they took to get ready, and into `turns_s`.

        Where one fails, its run says how and its variant has ended; nothing is kept of the others, as of all where the
        round is interrupted.
        """
        names = tuple(spec.variant for spec in specs)
        launch_spec = specs[0].launch
        cores = choose_round_cores(list_usable_cpus(), launch_spec.world_size, launch_spec.threads, round_index // 2)
        places = [self._add_caches(name, HERE) for name in names]
        self._clear_leftovers(names, repeat)
        teams = [
            Team(spec.variant, spec, self._get_run_folder(spec, repeat), place=place, cores=cores)
            for spec, place in zip(specs, places, strict=True)
        ]
        self._enter_runs(names, repeat)
        started_at, before = _format_now(), read_load()
        limit_s = sum(spec.launch.timeout_s for spec in specs)
        try:
            step_by_turns(
                teams,
                limit_s=limit_s,
                report=lambda text: progress(PassStarted(text)),
                turns=turns,
                turns_s=turns_s,
            )
        except TeamFailedError as error:
            name, run = error.team.label, _add_run_facts(error.run, started_at, before)
            write_json(error.team.folder / RUN_FILE, run)
            self._remove_runs([other for other in names if other != name], repeat)
            self.ended.add(name)
            before_it = self._count_runs(name) - 1
            progress(RunFinished(names.index(name), len(names), name, before_it, run.status, run.reason, run.seconds))
            return False
        except BaseException:
            self._remove_runs(names, repeat)
            raise
        ended = _add_run_facts(RunResult(status=RunStatus.OK, interleaved_variants=names), started_at, before)
        for team in teams:
            write_json(team.folder / RUN_FILE, msgspec.structs.replace(ended, exit_codes=team.exit_codes))
        return True

    def turns(self, variant: str, repeat: int) -> tuple[str, ...]:
        """The variants that a run took turns with, its own among them; none where it had the machine to itself."""
        return read_json(self.folder / get_run_path(variant, repeat) / RUN_FILE, RunResult).interleaved_variants

    def samples(self, spec: RunSpec, repeat: int) -> StepSamples:
        """The steps of a run that has ended, those of several ranks as one; none where there is no such run."""
        records = self._read_records(spec, repeat)
        return merge_slowest_ranks([record.samples for record in records]) if records else StepSamples()

    def resident_bytes(self, spec: RunSpec) -> float | None:
        """Peak main memory of all ranks of a variant's first run; None if one did not record it."""
        first = self.first_repeat(spec.variant)
        records = [] if first is None else self._read_records(spec, first)
        peaks = [record.memory.rss for record in records if record.memory is not None]
        known = [peak.value for peak in peaks if isinstance(peak, Measurement)]
        return sum(known) if len(known) == spec.launch.world_size else None

    def _add_caches(self, variant: str, place: RankPlace) -> RankPlace:
        if self.compile_caches is None:
            return place
        own = self.compile_caches / str(self.suite.variants.index(variant))
        return replace(place, environment={**place.environment, COMPILE_CACHE: str(own)})

    def _get_run_folder(self, spec: RunSpec, repeat: int) -> Path:
        return self.folder / get_run_path(spec.variant, repeat)

    def _read_records(self, spec: RunSpec, repeat: int) -> list[RankRecord]:
        folder = self._get_run_folder(spec, repeat)
        paths = (get_rank_folder(folder, rank) / RECORD_FILE for rank in range(spec.launch.world_size))
        return [read_json(path, RankRecord) for path in paths if path.is_file()]

    def _count_runs(self, variant: str) -> int:
        return sum(run.variant == variant for run in self.suite.runs)

    def _clear_leftovers(self, names: Sequence[str], repeat: int) -> None:
        """Take away what lies where runs are to be made, and is no run: what an interruption left."""
        known = {run.path for run in self.suite.runs}
        for path in {get_run_path(name, repeat) for name in names} - known:
            self._delete_run(path)

    def _enter_runs(self, names: Sequence[str], repeat: int) -> None:
        """Enter runs before they begin, so that what is left of them is found whatever happens."""
        entries = [SuiteRun(variant=name, repeat=repeat, path=get_run_path(name, repeat)) for name in names]
        self.update(runs=(*self.suite.runs, *entries))

    def _remove_runs(self, names: Sequence[str], repeat: int) -> None:
        self.remove(get_run_path(name, repeat) for name in names)

    def remove(self, paths: Iterable[str]) -> None:
        """Take runs out of the suite, first of its file, so that it is whole at every moment."""
        gone = set(paths)
        self.update(runs=tuple(run for run in self.suite.runs if run.path not in gone))
        for path in gone:
            self._delete_run(path)

    def _delete_run(self, path: str) -> None:
        if (self.folder / path).exists():  # one that was announced may not have begun
            shutil.rmtree(self.folder / path)


def create_suite(
    schedule: BenchSchedule,
    folder: Path,
    *,
    command: str,
    ceilings: DeviceCeilings | None,
    request: BenchRequest | None = None,
    sources: Mapping[str, str] | None = None,
) -> SuiteWriter:
    """A suite in `folder`, which must be empty. `request` and `sources` (digests) are kept for whoever adds to it."""
    refuse_occupied(folder)
    now = _format_now()
    suite = Suite(
        created_at=now,
        perfkit=perfkit.__version__,
        command=command,
        variants=schedule.variants,
        baselines=schedule.baselines,
        sources=dict(sources or {}),
        sessions=() if request is None else (MeasurementSession(created_at=now, command=command, request=request),),
    )
    write_json(folder / SUITE_FILE, suite)
    if ceilings is not None:
        write_json(folder / CEILINGS_FILE, ceilings)
    return SuiteWriter(folder, suite)


def _launch_run(item: ScheduledRun, folder: Path, progress: Progress, place: RankPlace) -> RunResult:
    if not item.skip:
        return launch_run(item.spec, folder, lambda name: progress(PassStarted(name)), place=place)
    run = RunResult(status=RunStatus.SKIPPED, reason=item.skip, reason_id=item.skip_id, perfkit=perfkit.__version__)
    write_json(folder / SPEC_FILE, item.spec)
    write_json(folder / RUN_FILE, run)
    return run


def _add_run_facts(run: RunResult, started_at: str, before: LoadReading) -> RunResult:
    load = compute_load(before, read_load())
    return msgspec.structs.replace(
        run, started_at=started_at, seconds=load.seconds, perfkit=perfkit.__version__, load=load
    )


def _format_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
