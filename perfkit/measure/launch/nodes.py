"""Runs on several machines: the first tells the others which is next, through torch's TCPStore, and when it is over."""

import time
from datetime import timedelta
from pathlib import Path

from torch._C._distributed_c10d import TCPStore

from perfkit.errors import PerfkitError, UsageError

_POLL_S = 0.2
_CONNECT_S = 300.0


def parse_endpoint(endpoint: str) -> tuple[str, int]:
    """`HOST:PORT`; torchrun's agents meet at the port after it. A `UsageError` for anything else."""
    host, colon, port = endpoint.rpartition(":")
    if not host or not colon or not port.isdecimal() or not 0 < int(port) < 65535:
        raise UsageError(f"--rdzv-endpoint must be HOST:PORT of the first machine, got {endpoint!r}")
    return host, int(port)


class Orders:
    """What the first machine says to the others. Runs are numbered from 1."""

    def __init__(self, endpoint: str, *, first: bool) -> None:
        host, port = parse_endpoint(endpoint)
        timeout = timedelta(seconds=_CONNECT_S)
        try:
            self._store = TCPStore(host, port, is_master=first, wait_for_workers=False, timeout=timeout)
        except RuntimeError as error:
            said = str(error).strip().splitlines()[0]
            raise PerfkitError(f"{endpoint}: the machines cannot meet there ({said})") from None
        self._runs = 0

    def give(self, folder: Path) -> None:
        """Have the other machines start their ranks of the run in `folder`, which they find at the same path."""
        self._runs += 1
        self._store.set(f"run {self._runs}", str(folder))

    def end(self, nodes: int, within_s: float) -> None:
        """Have the other machines end what they still run, and wait until they have."""
        self._store.set(f"over {self._runs}", "")
        limit = time.monotonic() + within_s
        waited = [f"done {self._runs} {node}" for node in range(1, nodes)]
        while not self._store.check(waited) and time.monotonic() < limit:
            time.sleep(_POLL_S)

    def next(self) -> Path | None:
        """Wait for the next run; None once the first machine has gone."""
        self._runs += 1
        try:
            while not self._store.check([f"run {self._runs}"]):
                time.sleep(_POLL_S)
            return Path(self._store.get(f"run {self._runs}").decode())
        except RuntimeError:  # the connection
            return None

    def over(self) -> bool:
        """Whether the run has ended on the first machine, or that has gone."""
        try:
            return self._store.check([f"over {self._runs}"])
        except RuntimeError:
            return True

    def done(self, node: int) -> None:
        """Say that nothing of the run is left on this machine."""
        try:
            self._store.set(f"done {self._runs} {node}", "")
        except RuntimeError:
            return  # nobody is there to hear it
