"""A suite in the making: its runs are made one by one or by turns, and `suite.json` is written before each."""

import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import perfkit
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.devices.machine import usable_cpus
from perfkit.errors import UsageError
from perfkit.files import read_json, write_json
from perfkit.instruments.load import LoadReading, load_between, read_load
from perfkit.measure.events import PassStarted, RunEvent, RunFinished, RunStarted
from perfkit.measure.launch.process import launch
from perfkit.measure.launch.ranks import HERE, RankPlace
from perfkit.measure.schedule import BenchSchedule, ScheduledRun
from perfkit.measure.turns.cores import cores_of_round
from perfkit.measure.turns.lockstep import step_by_turns
from perfkit.measure.turns.resident import Team, TeamFailedError
from perfkit.record import Measurement, RankRecord, Run, Samples, Status
from perfkit.sampling import slowest
from perfkit.spec import RunSpec
from perfkit.store.layout import (
    CEILINGS_FILE,
    RECORD_FILE,
    RUN_FILE,
    SPEC_FILE,
    SUITE_FILE,
    Suite,
    SuiteRun,
    rank_folder,
    run_path,
)

Progress = Callable[[RunEvent], None]


class SuiteInMaking:
    """A suite whose runs are made as they are asked for. What was measured is kept whatever happens after.

    `ended` are the variants that are not run again: skipped, or failed.
    """

    def __init__(self, schedule: BenchSchedule, folder: Path, *, command: str, ceilings: DeviceCeilings | None) -> None:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} exists already: name another folder with --out, or remove it; nothing was run")
        self.folder = folder
        self.suite = Suite(
            created_at=_now(),
            perfkit=perfkit.__version__,
            command=command,
            variants=schedule.variants,
            baselines=schedule.baselines,
        )
        self.ended: set[str] = set()
        write_json(folder / SUITE_FILE, self.suite)
        if ceilings is not None:
            write_json(folder / CEILINGS_FILE, ceilings)

    def update(self, **fields: object) -> None:
        """Replace fields of the suite and write it."""
        self.suite = msgspec.structs.replace(self.suite, **fields)
        write_json(self.folder / SUITE_FILE, self.suite)

    def run(
        self, item: ScheduledRun, progress: Progress, place: RankPlace = HERE, index: int = 0, total: int = 1
    ) -> None:
        """Make a run, the `index`-th of `total`, in `place`, unless its variant has ended before."""
        variant = item.spec.variant
        if variant in self.ended:
            return
        self._announce([variant], item.repeat)
        if not item.skip:
            progress(RunStarted(index, total, variant, item.repeat))
        run = _launch(item, self.folder / run_path(variant, item.repeat), progress, place)
        progress(RunFinished(index, total, variant, item.repeat, run.status, run.reason, run.seconds))
        if run.status != Status.OK:
            self.ended.add(variant)

    def by_turns(
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
        cores = cores_of_round(usable_cpus(), launch_spec.world_size, launch_spec.threads, round_index // 2)
        teams = [Team(spec.variant, spec, self._folder(spec, repeat), cores=cores) for spec in specs]
        self._announce(names, repeat)
        started_at, before = _now(), read_load()
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
            name, run = error.team.label, _stamped(error.run, started_at, before)
            write_json(error.team.folder / RUN_FILE, run)
            self._withdraw([other for other in names if other != name], repeat)
            self.ended.add(name)
            progress(RunFinished(names.index(name), len(names), name, repeat, run.status, run.reason, run.seconds))
            return False
        except BaseException:
            self._withdraw(names, repeat)
            raise
        ended = _stamped(Run(status=Status.OK, turns=names), started_at, before)
        for team in teams:
            write_json(team.folder / RUN_FILE, msgspec.structs.replace(ended, exit_codes=team.exit_codes))
        return True

    def samples(self, spec: RunSpec, repeat: int) -> Samples:
        """The steps of a run that has ended, those of several ranks as one; none where there is no such run."""
        records = self._records(spec, repeat)
        return slowest([record.samples for record in records]) if records else Samples()

    def resident_bytes(self, spec: RunSpec) -> float | None:
        """What all ranks of a variant's first run held in main memory at most; None where one did not record it."""
        peaks = [record.memory.rss for record in self._records(spec, 0) if record.memory is not None]
        known = [peak.value for peak in peaks if isinstance(peak, Measurement)]
        return sum(known) if len(known) == spec.launch.world_size else None

    def _folder(self, spec: RunSpec, repeat: int) -> Path:
        return self.folder / run_path(spec.variant, repeat)

    def _records(self, spec: RunSpec, repeat: int) -> list[RankRecord]:
        folder = self._folder(spec, repeat)
        paths = (rank_folder(folder, rank) / RECORD_FILE for rank in range(spec.launch.world_size))
        return [read_json(path, RankRecord) for path in paths if path.is_file()]

    def _announce(self, names: Sequence[str], repeat: int) -> None:
        """Enter runs before they begin, so that what is left of them is found whatever happens."""
        entries = [SuiteRun(variant=name, repeat=repeat, path=run_path(name, repeat)) for name in names]
        self.update(runs=(*self.suite.runs, *entries))

    def _withdraw(self, names: Sequence[str], repeat: int) -> None:
        gone = {run_path(name, repeat) for name in names}
        self.update(runs=tuple(run for run in self.suite.runs if run.path not in gone))
        for path in gone:
            shutil.rmtree(self.folder / path)


def _launch(item: ScheduledRun, folder: Path, progress: Progress, place: RankPlace) -> Run:
    if not item.skip:
        return launch(item.spec, folder, lambda name: progress(PassStarted(name)), place=place)
    run = Run(status=Status.SKIPPED, reason=item.skip, perfkit=perfkit.__version__)
    write_json(folder / SPEC_FILE, item.spec)
    write_json(folder / RUN_FILE, run)
    return run


def _stamped(run: Run, started_at: str, before: LoadReading) -> Run:
    load = load_between(before, read_load())
    return msgspec.structs.replace(
        run, started_at=started_at, seconds=load.seconds, perfkit=perfkit.__version__, load=load
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
