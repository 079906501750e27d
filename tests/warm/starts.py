"""`subprocess` asks the zygote for a fork wherever it can stand in for the Python that would be started."""

import inspect
import json
import os
import resource
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.warm.command import INTERPRETER, PERFKIT, Command, fits, zygote_environment

_LIMITS = ("RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_STACK")
_ZYGOTE = Path(__file__).with_name("zygote.py")

_PROGRAM = """#!{python}
import subprocess, sys
sys.path.insert(0, {root!r})
from tests.warm.starts import Starts
Starts(lambda: {address!r}, {environment!r}).install()
sys.exit(subprocess.run([{perfkit!r}, *sys.argv[1:]]).returncode)
"""

_execute_child: Callable[..., None] = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_internal_poll: Callable[..., int | None] = subprocess.Popen._internal_poll  # type: ignore[attr-defined]
_try_wait: Callable[..., tuple[int, int]] = subprocess.Popen._try_wait  # type: ignore[attr-defined]
_arguments_of = inspect.signature(_execute_child)


class Starts:
    """What `subprocess` does in this process: asks at the zygote's `address`, which was loaded with `environment`.

    Only while `warm`, which a process that runs tests is within tests: it starts others that run them.
    """

    def __init__(self, address: Callable[[], str], environment: Mapping[str, str], *, warm: bool = True) -> None:
        self._address = address
        self._environment = environment
        self.warm = warm

    def install(self) -> None:
        """From here on `subprocess.Popen` starts warm what it can."""

        def execute_child(process: subprocess.Popen[Any], *given: Any, **named: Any) -> None:
            asked = _arguments_of.bind(process, *given, **named).arguments
            request = self._request(asked) if self.warm else None
            if request is None:
                _execute_child(process, *given, **named)
            else:
                _fork(process, self._address(), request, asked)

        starter: Any = subprocess.Popen
        starter._execute_child = execute_child
        starter._internal_poll = _poll_warm
        starter._try_wait = _wait_warm

    def write_program(self, path: Path) -> None:
        """Write what a shell calls in the place of the installed `perfkit`: it starts that warm and ends like it."""
        path.write_text(
            _PROGRAM.format(
                python=INTERPRETER,
                root=os.fspath(_ZYGOTE.parents[2]),
                perfkit=PERFKIT,
                address=self._address(),
                environment=dict(self._environment),
            )
        )
        path.chmod(0o755)

    def _request(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the zygote is asked for, from the arguments of `Popen._execute_child`; None: start Python."""
        words = asked["args"]
        plain = (
            not isinstance(words, str | bytes | os.PathLike)
            and asked["executable"] is None
            and asked["preexec_fn"] is None
            and not asked["shell"]
            and not asked["pass_fds"]
            and asked["close_fds"]
            and asked["process_group"] == -1
            and all(asked[name] is None for name in ("uid", "gid", "gids"))
            and asked["umask"] < 0
        )
        command = Command.parse([os.fsdecode(word) for word in words]) if plain else None
        environment = {os.fsdecode(k): os.fsdecode(v) for k, v in (asked["env"] or os.environ).items()}
        if command is None or not fits(environment, self._environment) or any(map(os.isatty, _standard(asked))):
            return None
        return {
            "command": command.as_dict(),
            "folder": os.fspath(Path.cwd() / os.fsdecode(asked["cwd"] or "")),
            "environment": environment,
            "new_session": bool(asked["start_new_session"]),
            "cores": sorted(os.sched_getaffinity(0)),
            "limits": {name: resource.getrlimit(getattr(resource, name)) for name in _LIMITS},
            "ignored": [int(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if _ignored(number)],
        }


class Zygote:
    """The zygote of this process and of those it gives the address, started when it is asked for first.

    What it has forked outlives it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="perfkit-zygote-")
        self._environment = zygote_environment(os.environ)
        self.starts = Starts(self.start, self._environment, warm=False)

    def end(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()  # which tells it
            self._process.wait()
        self._folder.cleanup()

    def start(self) -> str:
        """Start it unless it has been; its address."""
        address = os.fspath(Path(self._folder.name) / "socket")
        if self._process is None:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                listener.bind(address)
                listener.listen(64)
                self._process = subprocess.Popen(
                    [INTERPRETER, os.fspath(_ZYGOTE), str(listener.fileno()), address],
                    stdin=subprocess.PIPE,
                    pass_fds=[listener.fileno()],
                    env=self._environment,
                    cwd=_ZYGOTE.parents[2],
                )
        return address


def _fork(process: Any, address: str, request: dict[str, Any], asked: Mapping[str, Any]) -> None:
    if not Path(request["folder"]).is_dir():
        raise FileNotFoundError(2, os.strerror(2), asked["cwd"])
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.connect(address)
    socket.send_fds(line, [json.dumps(request).encode()], _standard(asked))
    process.pid = int(line.recv(64))
    process.zygote_line = line.detach()  # closed with the process's end alone, and not where garbage is collected
    process._child_created = True
    pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
    process._close_pipe_fds(*(asked[name] for name in pipes))


def _standard(asked: Mapping[str, Any]) -> list[int]:
    """The descriptors that the process gets as its input, output and errors."""
    given = (asked["p2cread"], asked["c2pwrite"], asked["errwrite"])
    return [own if there == -1 else there for own, there in enumerate(given)]


def _ignored(number: int) -> bool:
    return signal.getsignal(number) == signal.SIG_IGN


def _wait_warm(process: Any, flags: int) -> tuple[int, int]:
    """As `os.waitpid`, for a process which is the zygote's child."""
    line: int | None = getattr(process, "zygote_line", None)
    if line is None:
        return _try_wait(process, flags)
    if flags and not select.select([line], [], [], 0)[0]:
        return 0, 0
    status = int(os.read(line, 64) or signal.SIGKILL)  # nothing: the zygote itself was killed
    os.close(line)
    return process.pid, status


def _poll_warm(process: Any, _deadstate: int | None = None, **imports: Any) -> int | None:
    if getattr(process, "zygote_line", None) is None:
        return _internal_poll(process, _deadstate, **imports)
    if process.returncode is None and process._waitpid_lock.acquire(False):
        try:
            if process.returncode is None:
                pid, status = _wait_warm(process, os.WNOHANG)
                if pid:
                    process._handle_exitstatus(status)
        finally:
            process._waitpid_lock.release()
    returncode: int | None = process.returncode
    return returncode
