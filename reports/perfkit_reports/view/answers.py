"""The dashboard's addresses and responses. Only runs in the folder are read; only trace requests are written.

/                             the list of runs
/live/RUN                     the live charts of a run
/report/RUN                   its report, rendered now if missing
/compare?run=RUN&run=RUN...   runs compared with the first, rendered now; RUN@VARIANT for one of several variants
/files/RUN/FILE               a file of a run
/api/runs                     the list as JSON
/api/live/RUN/.../rank0       a live log as JSON, `?since=BYTE` for what came after
/api/trace/RUN                a POST asks the running job to trace its next steps
/assets/DIGEST/NAME           style, scripts and plotly.js
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, quote, urlencode

from perfkit.core.errors import RunFormatError
from perfkit.store.listing import ListedRun, list_runs
from perfkit.store.live import LIVE_FILE, TRACE_NOW
from perfkit.store.live_tail import read_log_end
from perfkit.store.named_variant import AT, list_splits
from perfkit.store.suite_state import SuiteState
from perfkit.store.summary import MOST_COMPARED
from perfkit_reports.view import live, rows
from perfkit_reports.view.content import encode_for_script, encode_json, load_assets, render_page
from perfkit_reports.view.headers import FILE_POLICY, PAGE_POLICY
from perfkit_reports.view.paths import find_run_file, resolve_inside, split_path
from perfkit_reports.view.rendering import Renderer

_HTML = "text/html; charset=utf-8"
_JSON = "application/json"
_KEPT_S = 1.0  # seconds a listing is reused, so several open pages cost no more than one
_KEPT_TIMES = 5.0  # or this many times as long as it took: thousands of runs take seconds
_FOREVER = "max-age=31536000, immutable"

_Listed = tuple[ListedRun, ...]


@dataclass(frozen=True)
class HttpAnswer:
    """Status, content (bytes or a file) and extra headers."""

    status: HTTPStatus
    media: str
    body: bytes | Path
    policy: str = PAGE_POLICY
    cache: str = "no-cache"
    headers: dict[str, str] = field(default_factory=dict)


class RunListing:
    """A recently listed folder of runs; thread-safe. While one request lists it again, others get the last list."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._listed: _Listed | None = None
        self._kept_until_s = float("-inf")

    def list_recent(self) -> _Listed:
        listed = self._listed
        if listed is not None and time.monotonic() < self._kept_until_s:
            return listed
        if not self._lock.acquire(blocking=listed is None) and listed is not None:
            return listed
        try:
            began = time.monotonic()
            if self._listed is None or began >= self._kept_until_s:
                self._listed = list_runs(self.folder)
                ended = time.monotonic()
                self._kept_until_s = ended + max(_KEPT_S, _KEPT_TIMES * (ended - began))
            return self._listed
        finally:
            self._lock.release()

    def find(self, steps: tuple[str, ...]) -> ListedRun | None:
        path = "/".join(steps) or "."
        return next((item for item in self.list_recent() if item.path == path), None)


class _ListBodies:
    """The list of runs as it was last sent in each form: many open pages ask for the same."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[_Listed, bytes]] = {}

    def build(self, form: str, listed: _Listed, encode: Callable[[_Listed], bytes]) -> bytes:
        with self._lock:
            of, body = self._kept.get(form, (None, b""))
            if of is not listed:
                body = encode(listed)
                self._kept[form] = listed, body
            return body


class Site:
    """Answers requests about one folder of runs."""

    def __init__(self, folder: Path, renderer: Renderer) -> None:
        self._runs = RunListing(folder)
        self._list_bodies = _ListBodies()
        self._renderer = renderer
        self._pages: dict[str, Callable[[tuple[str, ...], str], HttpAnswer]] = {
            "live": self._serve_live,
            "report": self._serve_report,
            "compare": self._serve_comparison,
            "files": self._serve_file,
            "assets": self._serve_asset,
            "api": self._serve_api,
        }

    def serve_get(self, target: str) -> HttpAnswer:
        """The response to a GET of `target` (path and query, as sent)."""
        path, _, query = target.partition("?")
        steps = split_path(path)
        if steps is None:
            return make_refusal(HTTPStatus.BAD_REQUEST, "No page at this address.")
        if not steps:
            return self._serve_index()
        answer = self._pages.get(steps[0])
        return answer(steps[1:], query) if answer is not None else _make_not_found()

    def trace(self, target: str) -> HttpAnswer:
        """The response to a POST of `target`: requests a trace like `touch FOLDER/trace-now`."""
        steps = split_path(target)
        if steps is None or steps[:2] != ("api", "trace"):
            return _make_problem(HTTPStatus.METHOD_NOT_ALLOWED, "only api/trace/RUN accepts POST")
        item = self._runs.find(steps[2:])
        folder = None if item is None else resolve_inside(self._runs.folder, steps[2:])
        if item is None or folder is None or item.state != SuiteState.RUNNING or not item.live:
            return _make_problem(HTTPStatus.NOT_FOUND, "no running job writes there")
        starts = [read_log_end(folder / path / LIVE_FILE).start for path in item.live]
        if not all(start is not None and "file" in start.trace_on for start in starts):
            return _make_problem(HTTPStatus.CONFLICT, 'this job does not accept trace requests: trace_on lacks "file"')
        try:
            (folder / TRACE_NOW).touch(exist_ok=False)
        except FileExistsError:
            return _make_problem(HTTPStatus.CONFLICT, "a trace is already requested")
        except OSError as error:
            return _make_problem(HTTPStatus.CONFLICT, f"cannot write {TRACE_NOW}: {error.strerror}")
        return HttpAnswer(HTTPStatus.ACCEPTED, _JSON, encode_json({"asked": True}), cache="no-store")

    def _serve_index(self) -> HttpAnswer:
        body = self._list_bodies.build("page", self._runs.list_recent(), self._build_page)
        return HttpAnswer(HTTPStatus.OK, _HTML, body)

    def _build_page(self, listed: _Listed) -> bytes:
        data = {**self._build_list(listed), "most": MOST_COMPARED}
        return render_page("index.html.j2", title=self._runs.folder.name or "runs", data=encode_for_script(data))

    def _build_list(self, listed: _Listed) -> dict[str, object]:
        return {"folder": str(self._runs.folder), "runs": [rows.build_row(item) for item in listed]}

    def _encode_list(self, listed: _Listed) -> bytes:
        return encode_json(self._build_list(listed))

    def _serve_api(self, steps: tuple[str, ...], query: str) -> HttpAnswer:
        if steps == ("runs",):
            body = self._list_bodies.build("json", self._runs.list_recent(), self._encode_list)
            return HttpAnswer(HTTPStatus.OK, _JSON, body)
        if steps[:1] != ("live",):
            return _make_not_found()
        since = parse_qs(query).get("since", ["0"])[-1]
        if not since.isdecimal() or len(since) > 18:
            return _make_problem(HTTPStatus.BAD_REQUEST, f"since={since[:40]!r}: expected a number of bytes")
        folder = resolve_inside(self._runs.folder, steps[1:])
        # Resolved again with the file name: the log itself may be a link.
        if folder is None or find_run_file(self._runs.folder, (*steps[1:], LIVE_FILE)) is None:
            return _make_problem(HTTPStatus.NOT_FOUND, "no live log")
        try:
            return HttpAnswer(HTTPStatus.OK, _JSON, encode_json(live.read_log(folder, int(since))), cache="no-store")
        except RunFormatError as error:
            return _make_problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))

    def _serve_live(self, steps: tuple[str, ...], query: str) -> HttpAnswer:
        item = self._runs.find(steps)
        if item is None or not item.live:
            return _make_not_found()
        is_single = len({path.rpartition("/")[0] for path in item.live}) == 1
        logs = [
            {
                "label": _format_log_label(path, is_single),
                "api": _build_address("api", "live", *steps, *path.split("/")),
            }
            for path in item.live
        ]
        report, trace = _build_address("report", *steps), _build_address("api", "trace", *steps)
        return _make_page(
            "live.html.j2", title=item.name, item=item, report=report, trace=trace, data=encode_for_script(logs)
        )

    def _serve_report(self, steps: tuple[str, ...], query: str) -> HttpAnswer:
        item = self._runs.find(steps)
        if item is None:
            return _make_not_found()
        if item.state == SuiteState.DAMAGED:
            return make_refusal(HTTPStatus.UNPROCESSABLE_ENTITY, item.reason)
        if item.reported:
            return self._serve_file((*steps, "report.html"), query)
        folder = resolve_inside(self._runs.folder, steps)
        if folder is None:
            return _make_not_found()
        rendering = self._renderer.report(folder, (item.changed_s, item.state, item.outcomes))
        if rendering.page is not None:
            return HttpAnswer(HTTPStatus.OK, _HTML, rendering.page, policy=FILE_POLICY)
        status = HTTPStatus.INTERNAL_SERVER_ERROR if rendering.error else HTTPStatus.ACCEPTED
        return _make_page(
            "making.html.j2",
            status,
            title=f"the report of {item.name}",
            path=item.path,
            error=rendering.error,
            anyway="",
        )

    def _serve_comparison(self, steps: tuple[str, ...], query: str) -> HttpAnswer:
        requested = parse_qs(query)
        named = requested.get("run", [])
        if steps or not 2 <= len(named) <= MOST_COMPARED:
            return make_refusal(HTTPStatus.BAD_REQUEST, f"Select 2 to {MOST_COMPARED} runs to compare.")
        runs, versions = [], []
        for run_name in named:
            item, run = self._resolve_run(run_name)
            if item is None or run is None:
                return make_refusal(HTTPStatus.NOT_FOUND, f"No run {run_name}. It may have been moved or removed.")
            if item.state == SuiteState.DAMAGED:
                return make_refusal(HTTPStatus.UNPROCESSABLE_ENTITY, f"{run_name}: {item.reason}")
            runs.append(run)
            versions.append((item.changed_s, item.state, item.outcomes))
        rendering = self._renderer.request_comparison(runs, tuple(versions), anyway="anyway" in requested)
        if rendering.page is not None:
            return HttpAnswer(HTTPStatus.OK, _HTML, rendering.page, policy=FILE_POLICY)
        status = HTTPStatus.INTERNAL_SERVER_ERROR if rendering.error else HTTPStatus.ACCEPTED
        anyway = (
            f"/compare?{urlencode({'run': named, 'anyway': 1}, doseq=True)}" if "--anyway" in rendering.error else ""
        )
        what = f"the comparison of {', '.join(named)}"
        return _make_page("making.html.j2", status, title=what, path="", error=rendering.error, anyway=anyway)

    def _resolve_run(self, name: str) -> tuple[ListedRun | None, str | None]:
        """A listed run or one of its variants, with its name for `perfkit compare`; None outside the folder."""
        for path, variant in ((name, ""), *list_splits(name)):
            item = self._find_item(path)
            if item is not None and (not variant or any(each.variant == variant for each in item.outcomes)):
                folder = resolve_inside(self._runs.folder, () if path == "." else tuple(path.split("/")))
                return item, None if folder is None else f"{folder}{AT if variant else ''}{variant}"
        return None, None

    def _find_item(self, path: str) -> ListedRun | None:
        steps = () if path == "." else split_path(f"/{quote(path)}")
        return None if steps is None else self._runs.find(steps)

    def _serve_file(self, steps: tuple[str, ...], query: str) -> HttpAnswer:
        resolved = find_run_file(self._runs.folder, steps)
        if resolved is None:
            return _make_not_found()
        file, media, is_shown = resolved
        how = {} if is_shown else {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"}
        return HttpAnswer(HTTPStatus.OK, media, file, policy=FILE_POLICY, headers=how)

    def _serve_asset(self, steps: tuple[str, ...], query: str) -> HttpAnswer:
        asset = load_assets().get(steps[-1]) if steps else None
        if asset is None or asset.address != _build_address("assets", *steps):
            return _make_not_found()
        return HttpAnswer(HTTPStatus.OK, asset.media, asset.data, cache=_FOREVER)


def make_refusal(status: HTTPStatus, text: str) -> HttpAnswer:
    """A page that explains the refusal."""
    return _make_page("refused.html.j2", status, title=status.phrase, text=text)


def _make_not_found() -> HttpAnswer:
    return make_refusal(HTTPStatus.NOT_FOUND, "Not found. It may have been moved or removed since the list was loaded.")


def _make_problem(status: HTTPStatus, text: str) -> HttpAnswer:
    return HttpAnswer(status, _JSON, encode_json({"error": text}))


def _make_page(template: str, status: HTTPStatus = HTTPStatus.OK, **content: object) -> HttpAnswer:
    return HttpAnswer(status, _HTML, render_page(template, **content))


def _build_address(*steps: str) -> str:
    return "/" + "/".join(quote(step, safe="@+:") for step in steps)


def _format_log_label(path: str, is_single: bool) -> str:
    """`training/0/rank1` as `rank 1` if all logs are from one run, else as `training, rank 1`."""
    run, _, rank = path.rpartition("/")
    label = rank.replace("rank", "rank ")
    return label if is_single else f"{run.removesuffix('/0')}, {label}"
