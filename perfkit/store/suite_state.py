"""The state of a suite, from its runs' files, live logs and modification times."""

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import RunSpec
from perfkit.store.layout import RUN_FILE, SPEC_FILE, SUITE_FILE, Suite, SuiteRun
from perfkit.store.live_tail import SILENT_S, LogEnd
from perfkit.store.lock import is_abandoned
from perfkit.store.summary import VariantOutcome


class SuiteState(StrEnum):
    """State of a listed item."""

    OK = "ok"
    FAILED = "failed"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    UNDECIDED = "undecided"
    EMPTY = "empty"
    DAMAGED = "damaged"


class Conclusion(StrEnum):
    """Whether a suite that ended answers what it was asked."""

    COMPLETE = ""
    INTERRUPTED = "interrupted"
    UNDECIDED = "undecided"
    EMPTY = "empty"


_STATES = {
    Conclusion.COMPLETE: SuiteState.OK,
    Conclusion.INTERRUPTED: SuiteState.INTERRUPTED,
    Conclusion.UNDECIDED: SuiteState.UNDECIDED,
    Conclusion.EMPTY: SuiteState.EMPTY,
}


def is_unfinished(suite: Suite) -> bool:
    """True if the last session of `perfkit bench` wanted rounds that did not end by themselves."""
    last = suite.sessions[-1] if suite.sessions else None
    if last is None or last.request is None or last.request.rounds == 0:
        return False
    return last.sampling is None or not last.sampling.end_reason


def read_variant_outcomes(path: Path, suite: Suite) -> tuple[tuple[VariantOutcome, ...], SuiteRun | None]:
    """Read how each variant ended, as the worst of its repeats, and the last unfinished run."""
    statuses: dict[str, list[RunStatus]] = {variant: [] for variant in suite.variants}
    unfinished = None
    for entry in suite.runs:
        file = path / entry.path / RUN_FILE
        ended = read_json(file, RunResult).status if file.is_file() else RunStatus.INTERRUPTED
        unfinished = unfinished if file.is_file() else entry
        statuses.setdefault(entry.variant, []).append(ended)
    outcomes = (VariantOutcome(variant=variant, status=_find_worst(ends)) for variant, ends in statuses.items())
    return tuple(outcomes), unfinished


def _find_worst(statuses: Sequence[RunStatus]) -> RunStatus:
    """A variant with a failed repeat has failed; one of which no run began was interrupted."""
    order = sorted(statuses, key=lambda status: (status == RunStatus.OK, status == RunStatus.INTERRUPTED))
    return order[0] if order else RunStatus.INTERRUPTED


def find_suite_state(
    path: Path,
    outcomes: Sequence[VariantOutcome],
    unfinished: SuiteRun | None,
    logs: Sequence[LogEnd],
    now: float,
    conclusion: Conclusion = Conclusion.COMPLETE,
) -> tuple[SuiteState, str]:
    """The state of a suite without a report of all its runs, and why; `logs` are those of runs that have not ended, and
    `conclusion` what is known without a report."""
    if any(log.is_running(now) for log in logs):
        return SuiteState.RUNNING, ""
    if unfinished is not None and not logs and not is_abandoned(path):
        # A benchmark has no live log: its last writes are the files of the current run.
        quiet_s = now - find_last_write(path, unfinished)
        limit_s = max(SILENT_S, _read_limit_s(path / unfinished.path / SPEC_FILE))
        if quiet_s < limit_s:
            return SuiteState.RUNNING, f"last written {quiet_s:.0f} s ago; a run may take {limit_s:.0f} s"
    return get_ended_state(outcomes, conclusion)


def _read_limit_s(spec: Path) -> float:
    return read_json(spec, RunSpec).launch.timeout_s if spec.is_file() else 0.0


def get_ended_state(
    outcomes: Sequence[VariantOutcome], conclusion: Conclusion = Conclusion.COMPLETE
) -> tuple[SuiteState, str]:
    """The state of a suite whose variants ended so, with those that did not end well."""
    by_status = Counter(outcome.status for outcome in outcomes)
    fine = {RunStatus.OK, RunStatus.SKIPPED}
    failures = ", ".join(
        f"{outcome.variant} {outcome.status}" for outcome in outcomes if outcome.status != RunStatus.OK
    )
    if by_status.keys() - fine - {RunStatus.INTERRUPTED}:
        return SuiteState.FAILED, failures
    if by_status[RunStatus.INTERRUPTED] or not outcomes:
        return SuiteState.INTERRUPTED, failures or "ended before its first run"
    return _STATES[conclusion], failures


def find_last_write(path: Path, run: SuiteRun) -> float:
    """Find the time of the last write to the suite or one of its runs, in seconds since 1970."""
    return max(map(get_write_time, (path / SUITE_FILE, *(path / run.path).glob("**/*"))))


def get_write_time(file: Path) -> float:
    """The time of a file's last write; far in the past if the file is gone."""
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
