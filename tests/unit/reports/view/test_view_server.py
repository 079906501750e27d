"""The server, asked as nobody's browser would: bytes on a socket."""

import gzip
import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from perfkit.core.errors import UsageError
from perfkit.store.summary import TRACE_REPORT_FILE
from perfkit_reports.view import answers
from perfkit_reports.view.rendering import Renderer
from perfkit_reports.view.server import PORT, Server, open_server
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import record, write_suite
from tests.fixtures.view_folder import append, live_suite, start, view_folder, windows


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        return dict(json.loads(self.body))


class Asked:
    """A server and the folder it serves."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self.folder = folder

    def raw(self, data: bytes) -> Answered:
        """Send these bytes and read until the server closes."""
        with socket.create_connection(self.server.server_address[:2], timeout=10) as connection:  # type: ignore[arg-type]
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            received = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        head, _, body = received.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        return Answered(int(first.split(" ")[1]), headers, body)

    def get(self, target: str, *, method: str = "GET", host: str = "127.0.0.1", **headers: str) -> Answered:
        lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return self.raw("\r\n".join((*lines, "", "")).encode("latin-1"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return view_folder(tmp_path_factory.mktemp("view") / "runs")


@pytest.fixture
def asked(made: Path, tmp_path: Path) -> Iterator[Asked]:
    folder = Path(shutil.copytree(made, tmp_path / "runs"))
    for log in folder.rglob("live.jsonl"):
        log.touch()  # a copy is as old as what it is of
    (tmp_path / "secret.json").write_text('"secret"')
    with open_server(folder, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Asked(server, folder)
        server.shutdown()
        thread.join()


def test_the_list_as_page_and_as_json(asked: Asked) -> None:
    page = asked.get("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"bench/large" in page.body
    runs = {run["path"]: run for run in asked.get("/api/runs").json["runs"]}  # type: ignore[attr-defined]
    assert set(runs) == {"bench/gpt", "bench/large", "unreported", "trace", "damaged", "job"}
    step = runs["bench/gpt"]["figures"]["step"]
    assert (step["value"], step["text"], step["how"]) == (pytest.approx(0.05), "50.0 ms", "measured")
    assert runs["unreported"]["figures"]["step"]["value"] is None


@pytest.mark.parametrize(
    ("name", "text"),
    [("suite.json", "[" * 150_000), ("summary.json", '{"x":' * 120_000), ("suite.json", '{"x":[' * 90_000)],
)
def test_a_file_that_is_nested_too_deeply_is_listed_as_damaged(asked: Asked, name: str, text: str) -> None:
    (asked.folder / "deep").mkdir()
    (asked.folder / "deep" / name).write_text(text)
    if name == "summary.json":
        (asked.folder / "deep" / TRACE_REPORT_FILE).write_text("{}")
    assert asked.get("/").status == 200
    runs = {run["path"]: run for run in asked.get("/api/runs").json["runs"]}  # type: ignore[attr-defined]
    assert runs["deep"]["state"] == "damaged"
    assert asked.get("/report/deep").status == 422


def test_a_hundred_connections_wait_at_once(tmp_path: Path) -> None:
    """Nobody serves yet: the system takes as many as were asked for, and makes others try again."""
    with open_server(tmp_path, "127.0.0.1", 0) as server, ExitStack() as opened:
        for _ in range(100):
            opened.enter_context(socket.create_connection(server.server_address[:2], timeout=0.5))  # type: ignore[arg-type]


def test_a_list_is_not_waited_for_while_another_request_makes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    released, begun = threading.Event(), threading.Event()
    lists = iter([("old",), ("new",)])

    def list_slowly(_: Path) -> tuple[str, ...]:
        listed = next(lists)
        if listed == ("new",):
            begun.set()
            released.wait(10)
        return listed

    monkeypatch.setattr(answers, "list_runs", list_slowly)
    monkeypatch.setattr(answers, "_KEPT_S", 0.0)
    monkeypatch.setattr(answers, "_KEPT_TIMES", 0.0)
    listing = answers.RunListing(Path())
    assert listing.list_recent() == ("old",)
    with ThreadPoolExecutor() as threads:
        first = threads.submit(listing.list_recent)
        begun.wait(10)
        assert listing.list_recent() == ("old",)
        released.set()
        assert first.result() == ("new",)


def test_a_list_is_encoded_once(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_KEPT_S", 100.0)
    asked.get("/api/runs")
    monkeypatch.setattr(answers, "encode_json", None)
    assert asked.get("/api/runs").json["runs"]


def test_a_link_made_after_a_file_was_found_is_not_followed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    find = answers.find_run_file

    def find_and_swap(folder: Path, steps: tuple[str, ...]) -> tuple[Path, str, bool] | None:
        found = find(folder, steps)
        assert found is not None
        found[0].unlink()
        found[0].symlink_to(folder.parent / "secret.json")
        return found

    monkeypatch.setattr(answers, "find_run_file", find_and_swap)
    answered = asked.get("/files/bench/gpt/suite.json")
    assert (answered.status, b'secret"' in answered.body) == (404, False)


@pytest.mark.parametrize(
    "target", ["/", "/live/job", "/files/bench/gpt/report.html", "/api/runs", "/nothing", "/files/.."]
)
def test_every_answer_has_its_guards(asked: Asked, target: str) -> None:
    headers = asked.get(target).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http:" not in policy
    assert ("'unsafe-inline'" in policy.split("script-src")[1].split(";")[0]) == target.startswith("/files/bench")
    assert policy.startswith("sandbox") == target.startswith("/files/bench")


@pytest.mark.parametrize(
    "target",
    [
        "/files/../secret.json", "/files/bench/../../secret.json", "/files/%2e%2e/secret.json",
        "/files/%2e%2e%2fsecret.json", "/files/..%2fsecret.json", "/files/%252e%252e/secret.json",
        "/files/..%5csecret.json", "/files/\\..\\secret.json", "//secret.json", "/files//etc/passwd",
        "/files/%2fetc%2fpasswd", "/files/bench/gpt/suite.json%00.png", "/files/bench/gpt/out.json",
        "/files/bench/gpt/up/secret.json", "/files/.", "/files", "/files/bench", "/files/bench/gpt", "/api/live/../job",
        "/api/live/job", "/live/..", "/report/..", "/report/bench", "/assets/../x", "/assets/0/style.css",
        "/files/" + "a/" * 2000 + "suite.json", "/api", "/api/else", "/files/%ff",
    ],
)  # fmt: skip
def test_nothing_outside_can_be_read(asked: Asked, target: str) -> None:
    (asked.folder / "bench/gpt/out.json").symlink_to(asked.folder.parent / "secret.json")
    (asked.folder / "bench/gpt/up").symlink_to(asked.folder.parent)
    answered = asked.get(target)
    assert answered.status in (400, 404)
    assert b'"secret"' not in answered.body
    assert b"root:" not in answered.body


def test_a_live_log_that_is_a_link_to_the_outside_is_not_read(asked: Asked) -> None:
    log = next(asked.folder.glob("job/*/0/rank0/live.jsonl"))
    (asked.folder.parent / "other.jsonl").write_bytes(log.read_bytes())
    log.unlink()
    log.symlink_to(asked.folder.parent / "other.jsonl")
    assert asked.get("/api/live/job/baseline@2/0/rank0").status == 404


def test_files_are_sent_whole_with_their_kind(asked: Asked) -> None:
    suite = asked.folder / "bench/gpt/suite.json"
    answered = asked.get("/files/bench/gpt/suite.json")
    assert (answered.status, answered.body) == (200, suite.read_bytes())
    assert answered.headers["content-type"] == "application/json"
    trace = asked.folder / "bench/gpt/baseline/0/rank0/trace.json.gz"
    trace.write_bytes(bytes(3_000_000))
    answered = asked.get("/files/bench/gpt/baseline/0/rank0/trace.json.gz")
    assert len(answered.body) == 3_000_000
    assert answered.headers["content-disposition"] == "attachment; filename*=UTF-8''trace.json.gz"


def test_head_is_the_same_without_a_body(asked: Asked) -> None:
    for target in ("/", "/files/bench/gpt/report.html"):
        got, head = asked.get(target), asked.get(target, method="HEAD")
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == got.headers["content-length"] == str(len(got.body))


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_other_methods_are_refused(asked: Asked, method: str) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in asked.folder.rglob("*"))
    answered = asked.get("/files/bench/gpt/suite.json", method=method, Content_Length="3")
    assert (answered.status, answered.headers["allow"]) == (405, "GET, HEAD, POST")
    assert sorted((path, path.stat().st_mtime_ns) for path in asked.folder.rglob("*")) == before


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:9000", "127.0.0.1:8787", "[::1]", "[::1]:80"])
def test_names_of_this_machine_are_served(asked: Asked, host: str) -> None:
    assert asked.get("/api/runs", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8787",
        "evil@localhost",
        "",
        "[::1",
        "localhost:x",
    ],
)
def test_other_names_are_refused(asked: Asked, host: str) -> None:
    assert asked.get("/api/runs", host=host).status == 403


def test_a_request_with_two_hosts_or_none_is_refused(asked: Asked) -> None:
    assert (
        asked.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n").status == 403
    )
    assert asked.raw(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n").status == 403
    assert asked.get("http://evil.example/api/runs").status == 400


@pytest.mark.parametrize(
    "data", [b"\x00\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_request_gets_an_error(asked: Asked, data: bytes) -> None:
    assert asked.raw(data).status in (400, 414, 505)
    assert asked.get("/").status == 200


def test_a_browser_that_leaves_is_no_error(asked: Asked, capfd: pytest.CaptureFixture[str]) -> None:
    (asked.folder / "bench/gpt/large.json").write_bytes(bytes(8_000_000))
    for _ in range(3):
        connection = socket.create_connection(asked.server.server_address[:2])  # type: ignore[arg-type]
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # resets when it closes
        connection.sendall(b"GET /files/bench/gpt/large.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.recv(100)
        connection.close()
    assert asked.get("/api/runs").status == 200
    time.sleep(0.1)
    assert capfd.readouterr() == ("", "")


def test_what_has_not_changed_is_not_sent_again(asked: Asked) -> None:
    first = asked.get("/api/runs")
    again = asked.get("/api/runs", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_a_report_that_has_not_changed_is_not_sent_again(asked: Asked) -> None:
    first = asked.get("/report/bench/gpt")
    again = asked.get("/report/bench/gpt", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    (asked.folder / "bench/gpt/report.html").write_text("drawn again")
    assert asked.get("/report/bench/gpt", If_None_Match=first.headers["etag"]).body == b"drawn again"


@pytest.mark.parametrize("target", ["/", "/files/bench/gpt/large.json"])
def test_text_is_compressed_for_who_can_read_it(asked: Asked, target: str) -> None:
    plain, packed = asked.get(target), asked.get(target, Accept_Encoding="br, gzip;q=0.8")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in asked.get(target, Accept_Encoding="gzip;q=0").headers
    assert packed.headers["etag"] == plain.headers["etag"]


def test_scripts_and_style_are_kept_by_browsers_and_come_from_here(asked: Asked) -> None:
    page = asked.get("/live/job").body.decode()
    addresses = [part.split('"')[0] for part in page.split('="')[1:] if part.startswith("/assets/")]
    assert {address.rpartition("/")[2] for address in addresses} == {
        "style.css", "view.css", "frame.js", "theme.js", "plotly.min.js", "live.js",
    }  # fmt: skip
    for address in addresses:
        asset = asked.get(address)
        assert asset.status == 200
        assert "immutable" in asset.headers["cache-control"]
    assert "https://" not in page


def test_a_live_log_is_read_on_from_where_one_was(asked: Asked) -> None:
    target = "/api/live/job/baseline@2/0/rank0"
    first = asked.get(target).json
    assert [line["type"] for line in first["lines"]] == ["start", *["window"] * 30, *["event"] * 2]  # type: ignore[attr-defined]
    assert (first["running"], first["state"], first["more"]) == (True, "running", False)
    tiles = {tile["title"]: tile["text"] for tile in first["tiles"]}  # type: ignore[attr-defined]
    assert tiles["Peak memory"] == "41.2 GiB"
    assert asked.get(f"{target}?since={first['next']}").json["lines"] == []
    append(asked.folder / "job/baseline@2/0/rank0", windows(1, first=30))
    (line,) = asked.get(f"{target}?since={first['next']}").json["lines"]  # type: ignore[misc]
    assert line["last_step"] == 1550


@pytest.mark.parametrize("since", ["-1", "x", "1e9", "9" * 40, ""])
def test_a_place_that_is_no_number_is_refused(asked: Asked, since: str) -> None:
    answered = asked.get(f"/api/live/job/baseline@2/0/rank0?since={since}")
    assert answered.status == (200 if since == "" else 400)


def test_a_damaged_log_says_where(asked: Asked) -> None:
    log = next(asked.folder.glob("job/*/0/rank0/live.jsonl"))
    log.write_bytes(b"{}\n")
    answered = asked.get("/api/live/job/baseline@2/0/rank0")
    assert answered.status == 422
    assert "live.jsonl" in str(answered.json["error"])
    assert list_figures(str(answered.json["error"]))[-1] == "0"


def test_names_are_escaped(asked: Asked) -> None:
    write_suite(asked.folder / "<script>alert(1)<", {"baseline": [record(0.1)]})
    time.sleep(1.1)  # the list is kept for a second
    page = asked.get("/").body
    assert b"alert(1)" in page
    assert b"<script>alert(1)" not in page


@pytest.mark.slow
def test_a_missing_report_is_drawn_elsewhere(asked: Asked) -> None:
    before = sorted(asked.folder.rglob("*"))
    first = asked.get("/report/unreported")
    assert first.status == 202
    assert b"unreported" in first.body
    deadline = time.monotonic() + 60
    while (answered := asked.get("/report/unreported")).status == 202 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert answered.status == 200
    assert answered.headers["content-security-policy"].startswith("sandbox")
    assert b"perfkit report" in answered.body
    assert sorted(asked.folder.rglob("*")) == before


@pytest.mark.slow
def test_a_report_that_cannot_be_drawn_says_why(asked: Asked) -> None:
    (next((asked.folder / "unreported").rglob("record.json"))).write_text("{")
    deadline = time.monotonic() + 60
    while (answered := asked.get("/report/unreported")).status == 202 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert answered.status == 500
    assert b"record.json: not a valid RankRecord" in answered.body
    assert asked.get("/report/damaged").status == 422


def test_a_report_that_is_there_is_sent(asked: Asked) -> None:
    answered = asked.get("/report/bench/gpt")
    assert answered.body == (asked.folder / "bench/gpt/report.html").read_bytes()


@pytest.mark.slow
def test_a_folder_that_is_itself_a_run(tmp_path: Path) -> None:
    write_suite(tmp_path, {"baseline": [record(0.1)]})
    (tmp_path / "report.html").write_text("whole")
    with open_server(tmp_path, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asked = Asked(server, tmp_path)
        assert [run["path"] for run in asked.get("/api/runs").json["runs"]] == ["."]  # type: ignore[attr-defined]
        assert asked.get("/report").status == 202  # no summary: the page there may be of fewer runs
        assert asked.get("/files/suite.json").status == 200
        server.shutdown()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with open_server(tmp_path, "127.0.0.1", 0) as server:
        taken = server.server_address[1]
        with pytest.raises(UsageError, match=f"port {taken} .*--port"), open_server(tmp_path, "127.0.0.1", int(taken)):
            pass
    with open_server(tmp_path, "127.0.0.1", None) as first, open_server(tmp_path, "127.0.0.1", None) as second:
        assert first.url != second.url
        assert second.server_address[1] != PORT


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"192\.0\.2\.1"), open_server(tmp_path, "192.0.2.1", None):
        pass


def test_beyond_loopback_any_name_is_served(tmp_path: Path) -> None:
    with open_server(tmp_path, "0.0.0.0", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.create_connection(("127.0.0.1", int(server.server_address[1]))) as connection:
            connection.sendall(b"GET /api/runs HTTP/1.1\r\nHost: gpu17.cluster\r\nConnection: close\r\n\r\n")
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        server.shutdown()


def test_what_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with open_server(tmp_path, "127.0.0.1", 0):
        assert list(scratch.iterdir())
    assert not list(scratch.iterdir())


def post(asked: Asked, target: str = "/api/trace/job", *, token: str | None = None, **headers: str) -> Answered:
    host = f"127.0.0.1:{asked.server.server_address[1]}"
    given = {"Origin": f"http://{host}", "X_Perfkit_Token": asked.server.token if token is None else token, **headers}
    return asked.get(target, method="POST", host=host, **{name: value for name, value in given.items() if value})


def test_a_post_with_the_token_asks_the_running_job_for_a_trace(asked: Asked) -> None:
    assert post(asked).status == 202
    assert (asked.folder / "job" / "trace-now").read_bytes() == b""
    assert post(asked).status == 409
    assert "already" in post(asked).json["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"token": "guessed"},
        {"token": ""},
        {"Origin": "http://evil.example"},
        {"Origin": ""},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1"},  # another port is another origin
    ],
)
def test_without_the_token_or_from_another_page_nothing_is_written(asked: Asked, headers: dict[str, str]) -> None:
    assert post(asked, **headers).status == 403
    assert not (asked.folder / "job" / "trace-now").exists()


def test_a_post_under_another_name_is_refused_before_the_token_is_looked_at(asked: Asked) -> None:
    answered = asked.get(
        "/api/trace/job", method="POST", host="evil.example", Origin="http://evil.example",
        X_Perfkit_Token=asked.server.token,
    )  # fmt: skip
    assert answered.status == 403
    assert b"does not name this machine" in answered.body


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/", 405),
        ("/api/runs", 405),
        ("/api/trace/../../etc", 405),
        ("/api/trace/bench/gpt", 404),
        ("/api/trace/nowhere", 404),
    ],
)
def test_nothing_else_takes_a_post(asked: Asked, target: str, status: int) -> None:
    answered = post(asked, target)
    assert answered.status == status
    assert answered.json["error"]
    assert ("api/trace/RUN" in str(answered.json["error"])) == (status == 405)  # what does take one is named


def test_a_job_that_does_not_look_for_requests_is_not_asked(asked: Asked) -> None:
    live_suite(asked.folder / "deaf", ranks=1, lines=[start(trace_on=("signal",)), *windows(3)])
    time.sleep(1.1)  # a list is used again for a second
    answered = post(asked, "/api/trace/deaf")
    assert answered.status == 409
    assert "trace_on" in str(answered.json["error"])


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ("", 400, "2 to 8"),
        ("run=bench/gpt", 400, "2 to 8"),
        ("&".join(["run=bench/gpt"] * 9), 400, "2 to 8"),
        ("run=bench/gpt&run=nowhere", 404, "run nowhere"),
        ("run=bench/gpt&run=bench/gpt@fast", 404, "run bench/gpt@fast"),
        ("run=bench/gpt&run=../runs/bench/gpt", 404, "run ../runs/bench/gpt"),
        ("run=bench/gpt&run=--anyway", 404, "run --anyway"),
        ("run=bench/gpt&run=damaged", 422, "damaged"),
    ],
)
def test_only_runs_of_the_list_are_compared(asked: Asked, query: str, status: int, why: str) -> None:
    answer = asked.get(f"/compare?{query}")
    assert answer.status == status
    assert why in answer.body.decode()


def test_a_comparison_is_made_once_of_the_folders_that_are_meant(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[str]] = []

    def run(self: Renderer, command: Sequence[str]) -> str:
        drawn.append(list(command))
        return "Error: another kind of device: add --anyway"

    monkeypatch.setattr(Renderer, "_run_command", run)
    address = "/compare?run=bench%2Fgpt%40amp&run=bench%2Flarge"
    answer = asked.get(address)
    while answer.status == 202:
        answer = asked.get(address)
    assert answer.status == 500
    assert 'href="/compare?run=bench%2Fgpt%40amp&amp;run=bench%2Flarge&amp;anyway=1"' in answer.body.decode()
    (command,) = drawn
    assert command[3:6] == ["compare", f"{asked.folder}/bench/gpt@amp", f"{asked.folder}/bench/large"]
