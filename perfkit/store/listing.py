"""What lies in a folder of runs: one line for each suite and each report, from small files alone.

A folder that cannot be read is listed with its error. Nothing is looked for inside a suite's or a report's own folder,
in hidden folders, or behind symbolic links.
"""

import os
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from perfkit.errors import RunFormatError
from perfkit.files import read_json
from perfkit.record import Status, Unknown, measured
from perfkit.spec import RunSpec, Struct
from perfkit.store.layout import RUN_FILE, SPEC_FILE, SUITE_FILE, Suite, SuiteRun
from perfkit.store.live import LIVE_FILE
from perfkit.store.live_tail import LogEnd, log_end
from perfkit.store.read import read_suite_file
from perfkit.store.suite_state import State, ended_state, last_written, suite_state, variant_outcomes, written
from perfkit.store.summary import (
    CHECK_FILE,
    COMPARISON_FILE,
    FLIGHT_REPORT_FILE,
    MEMORY_REPORT_FILE,
    PLAN_FILE,
    PROCESS_FILE,
    REPORT_FILE,
    SUMMARY_FILE,
    TRACE_REPORT_FILE,
    Outcome,
    RowFigures,
    Summary,
    rate,
    unknown_figures,
)

# What a folder is, by the file that it is told by.
KINDS = {
    SUITE_FILE: "suite",
    TRACE_REPORT_FILE: "trace",
    MEMORY_REPORT_FILE: "memory",
    FLIGHT_REPORT_FILE: "flight",
    CHECK_FILE: "check",
    PROCESS_FILE: "process",
    COMPARISON_FILE: "comparison",
    PLAN_FILE: "plan",  # last: in a suite's folder it is a part of the suite
}


class Listed(Struct):
    """One suite or report. `path` is relative to the folder that was listed, `.` for that folder itself.

    `reason` says more of the state where there is more to say. `created_at` is "" where it is not known, and
    `changed_s` (seconds since 1970) is when the file that tells the kind was written. `live` are the folders of ranks
    with a live log, relative to `path`. `reported` says whether `report.html` is there and holds all runs. `verdict` is
    that of a check.
    """

    path: str
    kind: str
    name: str
    state: State
    reason: str = ""
    created_at: str = ""
    changed_s: float
    device: str = ""
    outcomes: tuple[Outcome, ...] = ()
    figures: RowFigures = RowFigures()
    live: tuple[str, ...] = ()
    reported: bool = False
    verdict: str = ""


def list_runs(folder: Path) -> tuple[Listed, ...]:
    """Everything under a folder, the newest first."""
    now = time.time()
    listed = (_listed(folder, path, marker, now) for path, marker in marked(folder, KINDS))
    return tuple(sorted(listed, key=_newest))


def _newest(item: Listed) -> tuple[float, str]:
    try:
        created = datetime.fromisoformat(item.created_at)
    except ValueError:
        return -item.changed_s, item.path
    return -(created if created.tzinfo else created.replace(tzinfo=UTC)).timestamp(), item.path


def marked(folder: Path, markers: Collection[str]) -> Iterator[tuple[Path, str]]:
    """Each folder with one of these files, and the first of them that it has. What cannot be opened is left out.

    Nothing is looked for inside such a folder, in hidden ones, or behind symbolic links.
    """
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        try:
            with os.scandir(current) as entries:
                inside = [entry for entry in entries if not entry.is_symlink()]
        except OSError:
            continue
        files = {entry.name for entry in inside if entry.is_file(follow_symlinks=False)}
        marker = next((marker for marker in markers if marker in files), None)
        if marker is not None:
            yield current, marker
        else:
            folders = (entry for entry in inside if entry.is_dir(follow_symlinks=False))
            waiting += [Path(entry.path) for entry in folders if not entry.name.startswith(".")]


def _listed(folder: Path, path: Path, marker: str, now: float) -> Listed:
    relative = _text(path.relative_to(folder).as_posix())
    name = _text(path.name or str(path))
    try:
        changed_s = (path / marker).stat().st_mtime
    except OSError as error:
        return _damaged(relative, KINDS[marker], name, 0.0, f"{path / marker}: {error.strerror}")
    try:
        if marker == SUITE_FILE:
            return _suite(path, relative, changed_s, now)
        return _report(path, relative, KINDS[marker], changed_s)
    except RunFormatError as error:
        return _damaged(relative, KINDS[marker], name, changed_s, _text(str(error).replace(f"{path}/", "")))
    except OSError as error:
        return _damaged(relative, KINDS[marker], name, changed_s, f"{error.filename}: {error.strerror}")


def _text(name: str) -> str:
    """A name of a file system, which need not be valid text, as one that is."""
    return os.fsencode(name).decode("utf-8", "replace")


def _damaged(path: str, kind: str, name: str, changed_s: float, reason: str) -> Listed:
    return Listed(
        path=path,
        kind=kind,
        name=name,
        state=State.DAMAGED,
        reason=reason,
        changed_s=changed_s,
        figures=unknown_figures("the folder cannot be read"),
    )


def _report(path: Path, relative: str, kind: str, changed_s: float) -> Listed:
    """A report on traces, memory or a comparison, whose own file may be large and is not read."""
    summary = _summary(path)
    if summary is None:
        reason = "no summary.json: the report is of an older perfkit, `perfkit report` writes it again with one"
        summary = Summary(kind=kind, name=path.name, created_at="", figures=unknown_figures(reason))
    return Listed(
        path=relative,
        kind=kind,
        name=summary.name,
        state=State.OK,
        reason=summary.reason,
        created_at=summary.created_at,
        changed_s=changed_s,
        device=summary.device,
        figures=summary.figures,
        reported=(path / REPORT_FILE).is_file(),
        verdict=summary.verdict,
    )


def _summary(path: Path) -> Summary | None:
    return read_json(path / SUMMARY_FILE, Summary) if (path / SUMMARY_FILE).is_file() else None


def _suite(path: Path, relative: str, changed_s: float, now: float) -> Listed:
    suite = read_suite_file(path)
    for entry in suite.runs:
        if entry.path.startswith("/") or ".." in entry.path.split("/"):
            raise RunFormatError(f"{path / SUITE_FILE}: runs.path {entry.path!r} leads out of the suite's folder")
    summary = _summary(path)
    live = tuple(_live_ranks(path, suite.runs))
    if summary is not None and _holds_all(path, summary, suite):
        state, reason = ended_state(summary.outcomes)
        name, device, outcomes, figures = summary.name, summary.device, summary.outcomes, summary.figures
        reported = (path / REPORT_FILE).is_file()
    else:
        outcomes, unfinished = variant_outcomes(path, suite)
        logs = [log_end(path / rank / LIVE_FILE) for rank in live if not (path / rank / ".." / RUN_FILE).is_file()]
        state, reason = suite_state(path, outcomes, unfinished, logs, now)
        name, device = _ordered(path, suite, logs)
        figures = _live_figures(logs, "no summary of all its runs yet: `perfkit report` writes one")
        reported = False
    return Listed(
        path=relative,
        kind="suite",
        name=name,
        state=state,
        reason=reason,
        created_at=suite.created_at,
        changed_s=changed_s,
        device=device,
        outcomes=outcomes,
        figures=figures,
        live=live,
        reported=reported,
    )


def _holds_all(path: Path, summary: Summary, suite: Suite) -> bool:
    """Whether the report that a summary is of holds everything: each run, or what was ever written of the last."""
    if summary.created_at != suite.created_at:
        return False
    if all(outcome.status != Status.INTERRUPTED for outcome in summary.outcomes):
        return summary.runs == len(suite.runs)
    return not suite.runs or last_written(path, suite.runs[-1]) <= written(path / SUMMARY_FILE)


def _live_ranks(path: Path, runs: Sequence[SuiteRun]) -> Iterator[str]:
    """The folders of ranks that have a live log. Where rank 0 has none, no rank is looked at: it costs time."""
    for entry in runs:
        if os.path.lexists(f"{path}/{entry.path}/rank0/{LIVE_FILE}"):  # a Path for each would take most of the time
            logs = sorted((path / entry.path).glob(f"rank*/{LIVE_FILE}"), key=_rank)
            yield from (f"{entry.path}/{log.parent.name}" for log in logs if log.is_file())


def _rank(log: Path) -> tuple[int, str]:
    number = log.parent.name.removeprefix("rank")
    return int(number) if number.isdecimal() else -1, number


def _ordered(path: Path, suite: Suite, logs: Sequence[LogEnd]) -> tuple[str, str]:
    """(workload, device) as a live log or the order of the first run names them."""
    named = next((log.start.device_name for log in logs if log.start is not None), "")
    file = path / suite.runs[0].path / SPEC_FILE if suite.runs else None
    if file is None or not file.is_file():
        return path.name, named
    spec = read_json(file, RunSpec)
    return spec.workload.label, named or spec.launch.device


def _live_figures(logs: Sequence[LogEnd], otherwise: str) -> RowFigures:
    """The figures of the latest window of the first rank with one, or why there are none."""
    log = next((log for log in logs if log.window is not None), None)
    if log is None or log.window is None:
        return unknown_figures(otherwise)
    window = log.window
    source = f"the last {window.steps} steps of the live log"
    absent = Unknown(reason="the live log does not tell")
    unit = log.start.unit if log.start is not None else ""
    return RowFigures(
        step=measured(window.step_s, "s", source),
        throughput=absent if window.units_per_s is None else rate(window.units_per_s, unit, source),
        peak=absent if window.allocated_bytes is None else measured(window.allocated_bytes, "bytes", source),
        mfu=absent if window.mfu is None else measured(window.mfu, "1", source),
    )
