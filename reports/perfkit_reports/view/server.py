"""The dashboard's server: GET, HEAD, and POST with a token; one thread per request."""

import gzip
import hashlib
import hmac
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import perfkit
from perfkit.core.errors import UsageError
from perfkit.core.files import NO_FOLLOW
from perfkit_reports.view.answers import HttpAnswer, Site, make_refusal
from perfkit_reports.view.headers import COMMON, is_loopback, is_own_host
from perfkit_reports.view.rendering import Renderer

PORT = 8787
TOKEN_HEADER = "X-Perfkit-Token"
_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 30.0  # seconds before an idle connection is closed
_TEXT_MEDIA = ("text/", "application/json", "image/svg+xml")
_LEAST_GZIP_BYTES = 1024  # smaller bodies fit into a packet uncompressed
_MOST_BYTES = 64 * 2**20  # maximum size of a file read whole for compression
_GZIP_LEVEL = 6
_MOST_KEPT_BYTES = 8 * 2**20  # of a body that is kept compressed


@contextmanager
def open_server(folder: Path, host: str, port: int | None) -> Iterator["Server"]:
    """A bound server, ready for `serve_forever`. The default port is 8787, or a free one if that is in use.

    Raises `UsageError` if it cannot be bound.
    """
    with tempfile.TemporaryDirectory(prefix="perfkit-view-") as scratch:
        renderer = Renderer(Path(scratch))
        site = Site(folder, renderer)
        try:
            with _bind_server(host, port, site) as server:
                yield server
        finally:
            renderer.close()


def _bind_server(host: str, port: int | None, site: Site) -> "Server":
    ports = (PORT, 0) if port is None else (port,)
    for number in ports:
        try:
            return Server(host, number, site)
        except OSError as error:
            refusal = error
    reason = refusal.strerror or refusal
    raise UsageError(f"cannot serve on {host} port {ports[0]} ({reason}): choose another with --host or --port")


class Server(ThreadingHTTPServer):
    """Serves one site at `url`. POST requests need `token`."""

    daemon_threads = True
    block_on_close = False  # open browser connections do not delay shutdown
    request_queue_size = 128  # connections that wait to be accepted; socketserver's 5 lets others wait for seconds

    def __init__(self, host: str, port: int, site: Site) -> None:
        self.site = site
        self.token = secrets.token_urlsafe(16)
        self.loopback = is_loopback(host)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.server_address[1]}/"

    def server_bind(self) -> None:
        """Bind without the base class's host name lookup, which can take seconds and is unused."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that disconnects early is no error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = f"perfkit/{perfkit.__version__}"
    sys_version = ""
    timeout = _TIMEOUT_S

    def do_GET(self) -> None:
        self._send_answer(self._answer_request(), with_body=True)

    def do_HEAD(self) -> None:
        self._send_answer(self._answer_request(), with_body=False)

    def do_POST(self) -> None:
        checked = self._check_request()
        if checked is None:
            own = f"http://{self.headers['Host']}" if self.headers["Host"] else ""
            token = self.headers.get(TOKEN_HEADER, "")
            if self.headers.get("Origin") != own or not hmac.compare_digest(token.encode(), self.server.token.encode()):
                checked = make_refusal(
                    HTTPStatus.FORBIDDEN,
                    "Only pages opened at the address that `perfkit view` printed may request this.",
                )
        self._send_answer(checked or self.server.site.trace(self.path), with_body=True)

    def _answer_request(self) -> HttpAnswer:
        return self._check_request() or self.server.site.serve_get(self.path)

    def _check_request(self) -> HttpAnswer | None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # an unread body
        hosts = self.headers.get_all("Host", [])
        if self.server.loopback and not (len(hosts) == 1 and is_own_host(hosts[0])):
            return make_refusal(
                HTTPStatus.FORBIDDEN,
                (
                    "The request does not name this machine. Open http://127.0.0.1 or http://localhost; from another "
                    "machine, forward a port with ssh -L."
                ),
            )
        return None

    def _send_answer(self, answer: HttpAnswer, *, with_body: bool) -> None:
        if isinstance(answer.body, Path):
            self._send_file(answer, answer.body, with_body=with_body)
        else:
            self._send_bytes(answer, answer.body, _compute_tag(answer.body), with_body=with_body)

    def _send_bytes(self, answer: HttpAnswer, body: bytes, tag: str, *, with_body: bool) -> None:
        if self._has_already(answer, tag):
            return
        packed = _compress_body(body, answer.media, self.headers.get("Accept-Encoding"))
        sent = body if packed is None else packed
        self._send_headers(answer, answer.status, len(sent), tag, "" if packed is None else "gzip")
        if with_body:
            self.wfile.write(sent)

    def _send_file(self, answer: HttpAnswer, path: Path, *, with_body: bool) -> None:
        try:
            file = open(path, "rb", opener=_open_no_link)  # noqa: SIM115
        except OSError:
            self._send_answer(make_refusal(HTTPStatus.NOT_FOUND, f"{path.name} cannot be read."), with_body=with_body)
            return
        with file:
            status = os.fstat(file.fileno())
            tag = _compute_file_tag(status)
            if self._has_already(answer, tag):
                return
            remaining = status.st_size
            if _is_text(answer.media) and remaining <= _MOST_BYTES:
                self._send_bytes(answer, file.read(remaining), tag, with_body=with_body)
                return
            self._send_headers(answer, answer.status, remaining, tag)
            while with_body and remaining:  # at most the announced length, if the file grows
                data = file.read(min(remaining, _CHUNK_BYTES))
                self.wfile.write(data)
                remaining -= len(data)
                if not data:  # shorter than announced
                    self.close_connection = True
                    return

    def _has_already(self, answer: HttpAnswer, tag: str) -> bool:
        """Send 304 if the browser's copy is current."""
        if not _is_cached(self.headers.get("If-None-Match"), tag, answer.status):
            return False
        self._send_headers(answer, HTTPStatus.NOT_MODIFIED, None, tag)
        return True

    def _send_headers(
        self, answer: HttpAnswer, status: HTTPStatus, length: int | None, tag: str, encoding: str = ""
    ) -> None:
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Type", answer.media)
            self.send_header("Content-Length", str(length))
        if encoding:
            self.send_header("Content-Encoding", encoding)
        if _is_text(answer.media):
            self.send_header("Vary", "Accept-Encoding")
        if tag:
            self.send_header("ETag", tag)
        self.send_header("Cache-Control", answer.cache)
        self.send_header("Content-Security-Policy", answer.policy)
        for name, value in (COMMON | answer.headers).items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Called by the base class for malformed requests and unknown methods."""
        self.close_connection = True  # the rest of the request is not read
        self.request_version = self.protocol_version  # else the response to a malformed request would have no header
        unknown_method = code == HTTPStatus.NOT_IMPLEMENTED
        status = HTTPStatus.METHOD_NOT_ALLOWED if unknown_method else HTTPStatus(code)
        text = b"only GET, HEAD and POST\n" if unknown_method else f"{message or status.phrase}\n".encode()
        headers = {"Connection": "close", "Allow": "GET, HEAD, POST"} if unknown_method else {"Connection": "close"}
        answer = HttpAnswer(status, "text/plain; charset=utf-8", text, headers=headers)
        self._send_headers(answer, status, len(text), "")
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """No log: the terminal belongs to the user."""


def _is_text(media: str) -> bool:
    """True if the media type is compressible."""
    return media.startswith(_TEXT_MEDIA)


def _is_gzip_accepted(accept_encoding: str | None) -> bool:
    """True if a request's `Accept-Encoding` accepts gzip (RFC 9110, section 12.5.3)."""
    for part in (accept_encoding or "").split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() in ("gzip", "*"):
            return weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _compress_body(body: bytes, media: str, accept_encoding: str | None) -> bytes | None:
    """The compressed body; None if not accepted or not smaller."""
    if len(body) < _LEAST_GZIP_BYTES or not _is_text(media) or not _is_gzip_accepted(accept_encoding):
        return None
    return _compress_page(body) if len(body) <= _MOST_KEPT_BYTES else gzip.compress(body, _GZIP_LEVEL, mtime=0)


@lru_cache(maxsize=8)
def _compress_page(body: bytes) -> bytes:
    """A page that many browsers load is compressed once."""
    return gzip.compress(body, _GZIP_LEVEL, mtime=0)


def _open_no_link(path: str, flags: int) -> int:
    """Opens a file whose links were resolved and found inside the folder: another one since then is not followed."""
    return os.open(path, flags | NO_FOLLOW)


def _compute_tag(body: bytes) -> str:
    """The weak `ETag` of a content, the same compressed or not."""
    return f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'


def _compute_file_tag(status: os.stat_result) -> str:
    """The `ETag` of a file, which changes with every write."""
    return f'W/"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"'


def _is_cached(if_none_match: str | None, tag: str, status: HTTPStatus) -> bool:
    """True if a request's `If-None-Match` matches the content (RFC 9110, section 13.1.2)."""
    if status != HTTPStatus.OK or not if_none_match:
        return False
    named = {part.strip().removeprefix("W/") for part in if_none_match.split(",")}
    return "*" in named or tag.removeprefix("W/") in named
