"""How a suite stands, from the files that tell it: the runs' own, the live logs, and when they were written."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from perfkit.files import read_json
from perfkit.record import Run, Status
from perfkit.spec import RunSpec
from perfkit.store.layout import RUN_FILE, SPEC_FILE, SUITE_FILE, Suite, SuiteRun
from perfkit.store.live_tail import SILENT_S, LogEnd
from perfkit.store.lock import left_by_its_writer
from perfkit.store.summary import Outcome


class State(StrEnum):
    """How what is listed stands."""

    OK = "ok"
    FAILED = "failed"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    DAMAGED = "damaged"


def variant_outcomes(path: Path, suite: Suite) -> tuple[tuple[Outcome, ...], SuiteRun | None]:
    """How each variant ended, the worst of its repeats, and the last run that has not ended."""
    statuses: dict[str, list[Status]] = {variant: [] for variant in suite.variants}
    unfinished = None
    for entry in suite.runs:
        file = path / entry.path / RUN_FILE
        ended = read_json(file, Run).status if file.is_file() else Status.INTERRUPTED
        unfinished = unfinished if file.is_file() else entry
        statuses.setdefault(entry.variant, []).append(ended)
    outcomes = (Outcome(variant=variant, status=_worst(ends)) for variant, ends in statuses.items())
    return tuple(outcomes), unfinished


def _worst(statuses: Sequence[Status]) -> Status:
    """A variant with a failed repeat has failed; one of which no run began was interrupted."""
    order = sorted(statuses, key=lambda status: (status == Status.OK, status == Status.INTERRUPTED))
    return order[0] if order else Status.INTERRUPTED


def suite_state(
    path: Path, outcomes: Sequence[Outcome], unfinished: SuiteRun | None, logs: Sequence[LogEnd], now: float
) -> tuple[State, str]:
    """The state of a suite without a report of all its runs, and why; `logs` are those of runs that have not ended."""
    if any(log.is_running(now) for log in logs):
        return State.RUNNING, ""
    if unfinished is not None and not logs and not left_by_its_writer(path):
        # A benchmark has no live log: what it writes last are the files of the run that is on.
        quiet_s = now - last_written(path, unfinished)
        limit_s = max(SILENT_S, _limit_s(path / unfinished.path / SPEC_FILE))
        if quiet_s < limit_s:
            return State.RUNNING, f"its last file is {quiet_s:.0f} s old, and a run of it may take {limit_s:.0f} s"
    return ended_state(outcomes)


def _limit_s(spec: Path) -> float:
    return read_json(spec, RunSpec).launch.timeout_s if spec.is_file() else 0.0


def ended_state(outcomes: Sequence[Outcome]) -> tuple[State, str]:
    """The state of a suite whose variants ended so, with those that did not end well."""
    by_status = Counter(outcome.status for outcome in outcomes)
    fine = {Status.OK, Status.SKIPPED}
    told = ", ".join(f"{outcome.variant} {outcome.status}" for outcome in outcomes if outcome.status != Status.OK)
    if by_status.keys() - fine - {Status.INTERRUPTED}:
        return State.FAILED, told
    if by_status[Status.INTERRUPTED] or not outcomes:
        return State.INTERRUPTED, told or "it ended before its first run"
    return State.OK, told


def last_written(path: Path, run: SuiteRun) -> float:
    """When the suite or a file of one of its runs was last written, in seconds since 1970."""
    return max(map(written, (path / SUITE_FILE, *(path / run.path).glob("**/*"))))


def written(file: Path) -> float:
    """When a file was last written; of one that is gone by now, long ago."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
