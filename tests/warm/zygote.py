"""A process that has imported torch and forks: `python zygote.py LISTENER ADDRESS`. It ends when its input does."""

import contextlib
import gc
import json
import os
import selectors
import socket
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

# What trainings, the command line and its analyses import of others, if not all of them all of it.
_LIBRARIES = (
    "click",
    "duckdb",
    "jinja2",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "msgspec",
    "numpy",
    "pandas",
    "psutil",
    "torch",
    "torch._dynamo",
    "torch.distributed",
    "torch.nn.parallel",
    "torch.profiler",
    "torch.utils.checkpoint",
    "torch.utils.data",
    "torch.utils.flop_counter",
)


@dataclass
class _Child:
    pid: int
    line: socket.socket  # to who asked for it
    pidfd: int


def serve(listener: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for everybody who asks. Returns in a fork: what it was asked for, its input, output and errors.

    In the zygote itself it returns None, at the end of its input.
    """
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.data is not None:
                _go_on(selector, key)
            elif key.fileobj is not listener:
                return None
            else:
                line, _ = listener.accept()
                message, standard, _, _ = socket.recv_fds(line, 1 << 20, 3)
                if not message:
                    line.close()
                    continue
                pid = os.fork()
                if pid == 0:
                    _close(selector, listener, line)
                    return json.loads(message), standard
                for descriptor in standard:
                    os.close(descriptor)
                _tell(line, str(pid))
                child = _Child(pid, line, os.pidfd_open(pid))
                selector.register(child.pidfd, selectors.EVENT_READ, child)


def _go_on(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    """A child has ended, whose status is told; or who asked knows it (or has ended), and the child is reaped."""
    child: _Child = key.data
    selector.unregister(key.fileobj)
    if key.fileobj == child.pidfd:
        os.close(child.pidfd)
        ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        code = ended.si_status << 8 if ended.si_code == os.CLD_EXITED else ended.si_status
        _tell(child.line, str(code))
        selector.register(child.line, selectors.EVENT_READ, child)
    else:
        child.line.close()
        os.waitpid(child.pid, 0)


def _tell(line: socket.socket, text: str) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # who asked has ended, or was interrupted
        line.send(text.encode())


def _close(selector: selectors.BaseSelector, listener: socket.socket, line: socket.socket) -> None:
    """What only the zygote needs."""
    for key in list(selector.get_map().values()):
        if key.data is not None:
            child: _Child = key.data
            child.line.close()
            if key.fileobj == child.pidfd:
                os.close(child.pidfd)
    selector.close()
    listener.close()
    line.close()


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    address = sys.argv[2]
    environment = dict(os.environ)
    sys.path[0] = os.fspath(Path.cwd())
    for name in _LIBRARIES:
        import_module(name)
    from tests.warm.become import Fork
    from tests.warm.starts import Starts

    fork = Fork(Starts(lambda: address, environment))
    gc.collect()
    gc.freeze()  # the collector would write to, and so copy, every page
    served = serve(listener)
    if served is not None:
        fork.run(*served)


if __name__ == "__main__":
    main()
