"""Lists a folder of runs: one line per suite and report, from small files alone.

A folder that cannot be read is listed with its error. Nothing is looked for inside a suite's or a report's own folder,
in hidden folders, or behind symbolic links.
"""

import os
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from perfkit.core.errors import RunFormatError
from perfkit.core.files import read_json
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import RunSpec, Struct
from perfkit.store.layout import RUN_FILE, SPEC_FILE, SUITE_FILE, Suite, SuiteRun
from perfkit.store.live import LIVE_FILE
from perfkit.store.live_tail import LogEnd, read_log_end
from perfkit.store.lock import is_abandoned
from perfkit.store.report_kinds import KIND_BY_MARKER
from perfkit.store.suite_reader import read_suite_file
from perfkit.store.suite_state import (
    Conclusion,
    SuiteState,
    find_last_write,
    find_suite_state,
    get_ended_state,
    get_write_time,
    is_unfinished,
    read_variant_outcomes,
)
from perfkit.store.summary import (
    REPORT_FILE,
    SUMMARY_FILE,
    ReportSummary,
    RowFigures,
    VariantOutcome,
    make_throughput,
    make_unknown_figures,
)


class ListedRun(Struct):
    """One suite or report. `path` is relative to the listed folder, `.` for that folder itself.

    `reason` explains the state. `created_at` is "" if unknown, and `changed_s` (seconds since 1970) is when the marker
    file was written. `live` are the folders of ranks with a live log, relative to `path`. `reported` is True if
    `report.html` exists and covers all runs. `verdict` is that of a check.
    """

    path: str
    kind: str
    name: str
    state: SuiteState
    reason: str = ""
    created_at: str = ""
    changed_s: float
    device: str = ""
    outcomes: tuple[VariantOutcome, ...] = ()
    figures: RowFigures = RowFigures()
    live: tuple[str, ...] = ()
    reported: bool = False
    verdict: str = ""


def list_runs(folder: Path) -> tuple[ListedRun, ...]:
    """Everything under a folder, the newest first."""
    now = time.time()
    listed = (_list_entry(folder, path, marker, now) for path, marker in find_marked_folders(folder, KIND_BY_MARKER))
    return tuple(sorted(listed, key=_get_sort_key))


def _get_sort_key(item: ListedRun) -> tuple[float, str]:
    try:
        created = datetime.fromisoformat(item.created_at)
    except ValueError:
        return -item.changed_s, item.path
    return -(created if created.tzinfo else created.replace(tzinfo=UTC)).timestamp(), item.path


def find_marked_folders(folder: Path, markers: Collection[str]) -> Iterator[tuple[Path, str]]:
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


def _list_entry(folder: Path, path: Path, marker: str, now: float) -> ListedRun:
    relative = _decode_name(path.relative_to(folder).as_posix())
    name = _decode_name(path.name or str(path))
    kind = KIND_BY_MARKER[marker].name
    try:
        changed_s = (path / marker).stat().st_mtime
    except OSError as error:
        return _make_damaged(relative, kind, name, 0.0, f"{path / marker}: {error.strerror}")
    try:
        if marker == SUITE_FILE:
            return _list_suite(path, relative, changed_s, now)
        return _list_report(path, relative, kind, changed_s)
    except RunFormatError as error:
        return _make_damaged(relative, kind, name, changed_s, _decode_name(str(error).replace(f"{path}/", "")))
    except OSError as error:
        return _make_damaged(relative, kind, name, changed_s, f"{error.filename}: {error.strerror}")


def _decode_name(name: str) -> str:
    """A name of a file system, which need not be valid text, as one that is."""
    return os.fsencode(name).decode("utf-8", "replace")


def _make_damaged(path: str, kind: str, name: str, changed_s: float, reason: str) -> ListedRun:
    return ListedRun(
        path=path,
        kind=kind,
        name=name,
        state=SuiteState.DAMAGED,
        reason=reason,
        changed_s=changed_s,
        figures=make_unknown_figures("the folder cannot be read"),
    )


def _list_report(path: Path, relative: str, kind: str, changed_s: float) -> ListedRun:
    """A report on traces, memory or a comparison, whose own file may be large and is not read."""
    summary = _read_summary(path)
    if summary is None:
        reason = "no summary.json: an older perfkit wrote this report; `perfkit report` updates it"
        summary = ReportSummary(kind=kind, name=path.name, created_at="", figures=make_unknown_figures(reason))
    return ListedRun(
        path=relative,
        kind=kind,
        name=summary.name,
        state=SuiteState.OK,
        reason=summary.reason,
        created_at=summary.created_at,
        changed_s=changed_s,
        device=summary.device,
        figures=summary.figures,
        reported=(path / REPORT_FILE).is_file(),
        verdict=summary.verdict,
    )


def _read_summary(path: Path) -> ReportSummary | None:
    return read_json(path / SUMMARY_FILE, ReportSummary) if (path / SUMMARY_FILE).is_file() else None


def _list_suite(path: Path, relative: str, changed_s: float, now: float) -> ListedRun:
    suite = read_suite_file(path)
    for entry in suite.runs:
        if entry.path.startswith("/") or ".." in entry.path.split("/"):
            raise RunFormatError(f"{path / SUITE_FILE}: runs.path {entry.path!r} points outside the suite's folder")
    summary = _read_summary(path)
    live = tuple(_find_live_ranks(path, suite.runs))
    if summary is not None and _is_complete(path, summary, suite):
        state, reason = get_ended_state(summary.outcomes, Conclusion(summary.conclusion))
        name, device, outcomes, figures = summary.name, summary.device, summary.outcomes, summary.figures
        reported = (path / REPORT_FILE).is_file()
    else:
        outcomes, unfinished = read_variant_outcomes(path, suite)
        logs = [read_log_end(path / rank / LIVE_FILE) for rank in live if not (path / rank / ".." / RUN_FILE).is_file()]
        stopped = is_unfinished(suite) and is_abandoned(path)
        conclusion = Conclusion.INTERRUPTED if stopped else Conclusion.COMPLETE
        state, reason = find_suite_state(path, outcomes, unfinished, logs, now, conclusion)
        name, device = _identify_suite(path, suite, logs)
        figures = _read_live_figures(logs, "no summary of all runs yet; `perfkit report` writes one")
        reported = False
    return ListedRun(
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


def _is_complete(path: Path, summary: ReportSummary, suite: Suite) -> bool:
    """True if a summary's report covers everything: each run, or everything written by the last."""
    if summary.created_at != suite.created_at:
        return False
    if all(outcome.status != RunStatus.INTERRUPTED for outcome in summary.outcomes):
        return summary.runs == len(suite.runs)
    return not suite.runs or find_last_write(path, suite.runs[-1]) <= get_write_time(path / SUMMARY_FILE)


def _find_live_ranks(path: Path, runs: Sequence[SuiteRun]) -> Iterator[str]:
    """The folders of ranks that have a live log. Where rank 0 has none, no rank is looked at: it costs time."""
    for entry in runs:
        if os.path.lexists(f"{path}/{entry.path}/rank0/{LIVE_FILE}"):  # a Path for each would take most of the time
            logs = sorted((path / entry.path).glob(f"rank*/{LIVE_FILE}"), key=_parse_rank)
            yield from (f"{entry.path}/{log.parent.name}" for log in logs if log.is_file())


def _parse_rank(log: Path) -> tuple[int, str]:
    number = log.parent.name.removeprefix("rank")
    return int(number) if number.isdecimal() else -1, number


def _identify_suite(path: Path, suite: Suite, logs: Sequence[LogEnd]) -> tuple[str, str]:
    """(workload, device) as a live log or the order of the first run names them."""
    named = next((log.start.device_name for log in logs if log.start is not None), "")
    file = path / suite.runs[0].path / SPEC_FILE if suite.runs else None
    if file is None or not file.is_file():
        return path.name, named
    spec = read_json(file, RunSpec)
    return spec.workload.label, named or spec.launch.device


def _read_live_figures(logs: Sequence[LogEnd], otherwise: str) -> RowFigures:
    """Read the figures of the latest window of the first rank with one, or the reason why there are none."""
    log = next((log for log in logs if log.window is not None), None)
    if log is None or log.window is None:
        return make_unknown_figures(otherwise)
    window = log.window
    source = f"last {window.steps} steps of the live log"
    absent = Unknown(reason="not in the live log")
    unit, peak = ("", "") if log.start is None else (log.start.unit, log.start.peak)
    return RowFigures(
        step=make_measurement(window.step_s, "s", source),
        throughput=absent if window.units_per_s is None else make_throughput(window.units_per_s, unit, source),
        peak=absent if window.allocated_bytes is None else make_measurement(window.allocated_bytes, "bytes", source),
        mfu=absent if window.mfu is None else replace(make_measurement(window.mfu, "1", source), of=peak),
    )
