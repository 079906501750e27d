"""Reads a suite's folder strictly, including what an interrupted suite left.

An existing file must be complete and ours, else `RunFormatError` names it and the field. A missing file is no error if
a killed worker can be the reason: the run is then reported as crashed or interrupted.
"""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from perfkit.core.errors import RunFormatError
from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import RunSpec
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.store.layout import (
    CEILINGS_FILE,
    COUNTERS_FILE,
    HISTORY_FILE,
    MEMORY_FILE,
    RECORD_FILE,
    RUN_FILE,
    SPEC_FILE,
    SUITE_FILE,
    TRACE_FILE,
    Suite,
    SuiteRun,
    get_rank_folder,
)
from perfkit.store.live import LIVE_FILE
from perfkit.store.stacks import STACKS_FILE


@dataclass(frozen=True, kw_only=True)
class StoredRank:
    """Files of one rank: its record, and the paths of its trace, memory events, counters, the history of its CUDA
    allocator, the log of an always-on loop, and sampled Python stacks."""

    record: RankRecord
    trace: Path | None
    memory: Path | None
    counters: Path | None = None
    history: Path | None = None
    live: Path | None = None
    stacks: Path | None = None


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One launch of one variant. `ranks` has only the ranks that left a record, in order of rank."""

    variant: str
    repeat: int
    path: str
    spec: RunSpec
    run: RunResult
    ranks: tuple[StoredRank, ...]

    @property
    def complete(self) -> bool:
        """Every rank left a record."""
        return len(self.ranks) == self.spec.launch.world_size


@dataclass(frozen=True, kw_only=True)
class StoredSuite:
    """A suite's folder as read. `runs` is in the order in which they were made."""

    folder: Path
    suite: Suite
    ceilings: DeviceCeilings | None
    runs: tuple[StoredRun, ...]


def read_suite(folder: Path) -> StoredSuite:
    """Read a suite. Raises `RunFormatError` for another folder, or a truncated or foreign file."""
    suite = read_suite_file(folder)
    ceilings = folder / CEILINGS_FILE
    return StoredSuite(
        folder=folder,
        suite=suite,
        ceilings=read_json(ceilings, DeviceCeilings) if ceilings.is_file() else None,
        runs=tuple(_read_run(folder, entry) for entry in _drop_unstarted(folder, suite.runs)),
    )


def read_suite_file(folder: Path) -> Suite:
    """`suite.json` alone. Raises `RunFormatError` as `read_suite` does."""
    path = folder / SUITE_FILE
    if not path.is_file():
        problem = f"no {SUITE_FILE} in this folder" if folder.is_dir() else "no such folder"
        raise RunFormatError(f"{folder}: {problem}; expected a suite's folder, written by `perfkit bench --out`")
    return read_json(path, Suite)


def _drop_unstarted(folder: Path, runs: tuple[SuiteRun, ...]) -> tuple[SuiteRun, ...]:
    """The runs without a last one that the suite announced but ended before it wrote anything of."""
    for entry in runs:
        relative = PurePosixPath(entry.path)
        if relative.is_absolute() or ".." in relative.parts:
            raise RunFormatError(f"{folder / SUITE_FILE}: runs.path {entry.path!r} points outside the suite's folder")
    if runs and not (folder / runs[-1].path / SPEC_FILE).exists() and not (folder / runs[-1].path / RUN_FILE).exists():
        return runs[:-1]
    return runs


def _read_run(suite_folder: Path, entry: SuiteRun) -> StoredRun:
    folder = suite_folder / entry.path
    if not folder.is_dir():
        raise RunFormatError(f"{suite_folder / SUITE_FILE}: runs.path {entry.path!r} names a missing folder")
    spec = read_json(folder / SPEC_FILE, RunSpec)
    run_file = folder / RUN_FILE
    stored = (_read_rank(get_rank_folder(folder, rank), rank, spec) for rank in range(spec.launch.world_size))
    ranks = tuple(rank for rank in stored if rank is not None)
    run = read_json(run_file, RunResult) if run_file.is_file() else _make_unfinished_run(ranks)
    return StoredRun(
        variant=entry.variant,
        repeat=entry.repeat,
        path=entry.path,
        spec=spec,
        run=run,
        ranks=ranks,
    )


def _make_unfinished_run(ranks: tuple[StoredRank, ...]) -> RunResult:
    if any(rank.record.attached_loop is not None for rank in ranks):
        return RunResult(status=RunStatus.INTERRUPTED, reason="no recorded end: still running or killed")
    return RunResult(status=RunStatus.INTERRUPTED, reason="the suite ended before this run")


def _read_rank(folder: Path, rank: int, spec: RunSpec) -> StoredRank | None:
    path = folder / RECORD_FILE
    if not path.is_file():
        return None
    record = read_json(path, RankRecord)
    for name, recorded, expected in (
        ("rank", record.rank, rank),
        ("world_size", record.world_size, spec.launch.world_size),
    ):
        if recorded != expected:
            raise RunFormatError(f"{path}: {name} is {recorded}, but the run's folder and {SPEC_FILE} say {expected}")
    return StoredRank(
        record=record,
        trace=_get_existing(folder / TRACE_FILE),
        memory=_get_existing(folder / MEMORY_FILE),
        counters=_get_existing(folder / COUNTERS_FILE),
        history=_get_existing(folder / HISTORY_FILE),
        live=_get_existing(folder / LIVE_FILE),
        stacks=_get_existing(folder / STACKS_FILE),
    )


def _get_existing(path: Path) -> Path | None:
    return path if path.is_file() else None
