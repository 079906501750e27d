"""Runs on several machines: the first announces each run and the end to the others through torch's TCPStore."""

import contextlib
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from torch._C._distributed_c10d import TCPStore

from perfkit.core.errors import PerfkitError, UsageError
from perfkit.measure.launch.network import find_local_address

_POLL_S = 0.2
_CONNECT_S = 300.0
_LEAVE_S = 2.0
# Machines come when a cluster has them, and then fetch their images.
JOINED_WITHIN_S = 3600.0


def parse_endpoint(endpoint: str) -> tuple[str, int]:
    """`HOST:PORT`; torchrun's agents meet at the port after it. A `UsageError` for anything else."""
    host, colon, port = endpoint.rpartition(":")
    if not host or not colon or not port.isdecimal() or not 0 < int(port) < 65535:
        raise UsageError(f"--rdzv-endpoint: expected HOST:PORT of the first machine, got {endpoint!r}")
    return host, int(port)


def wait_for_first_node(endpoint: str, within_s: float = JOINED_WITHIN_S) -> None:
    """Wait until the first machine listens there; a `PerfkitError` says why it cannot be reached.

    torch's own waiting fills the terminal with warnings.
    """
    where, limit = parse_endpoint(endpoint), time.monotonic() + within_s
    while True:
        try:
            socket.create_connection(where, timeout=_CONNECT_S).close()
        except OSError as error:  # the name does not exist yet, or nobody listens yet
            if time.monotonic() > limit:
                reason = error.strerror or error
                raise PerfkitError(f"{endpoint}: the first machine cannot be reached ({reason})") from None
            time.sleep(_POLL_S)
        else:
            return


class NodeCoordinator:
    """Messages from the first machine to the others. Runs are numbered from 1."""

    def __init__(self, endpoint: str, *, first: bool) -> None:
        host, port = parse_endpoint(endpoint)
        timeout = timedelta(seconds=_CONNECT_S)
        try:
            self._store = TCPStore(host, port, is_master=first, wait_for_workers=False, timeout=timeout)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[0]
            raise PerfkitError(f"{endpoint}: the machines cannot rendezvous there ({reason})") from None
        self._endpoint = endpoint
        self._runs = 0
        self._node = 0

    def wait_for_others(self, nodes: int, report: Callable[[str], None], within_s: float = JOINED_WITHIN_S) -> None:
        """Wait until all machines have joined; a `PerfkitError` names those that have not, or have left."""
        limit = time.monotonic() + within_s
        announced: list[int] = []
        while absent := [node for node in range(1, nodes) if not self._store.check([f"joined {node}"])]:
            if time.monotonic() > limit:
                ranks = ", ".join(map(str, absent))
                raise PerfkitError(
                    f"machine {ranks} of {nodes} has not joined; run `perfkit join {self._endpoint} "
                    "--node-rank K` there, and check that it can reach this machine"
                )
            if absent != announced:
                announced = absent
                report(f"waiting for machine {announced[0]}: perfkit join {self._endpoint} --node-rank {announced[0]}")
            time.sleep(_POLL_S)
        departed = [node for node in range(1, nodes) if self._store.check([f"left {node}"])]
        if departed:
            raise PerfkitError(
                f"machine {', '.join(map(str, departed))} of {nodes} has left: its `perfkit join` ended; "
                "continue with `perfkit bench --resume FOLDER` here and `perfkit join` there"
            )

    def join(self, node: int) -> None:
        """Say that this is the machine `node`, and there, and by which of its addresses it came."""
        self._node = node
        self._store.set(f"joined {node}", find_local_address(parse_endpoint(self._endpoint)[0]))

    def announce_quit(self) -> None:
        """Announce that this machine leaves, though the first may go on."""
        with contextlib.suppress(RuntimeError):  # the store is gone
            self._store.set(f"left {self._node}", "")

    def get_node_address(self, node: int) -> str:
        """That of a machine that has joined."""
        return self._store.get(f"joined {node}").decode()

    def leave(self, nodes: int) -> None:
        """Release the other machines, and give them a moment to notice while this store exists."""
        self._store.set(f"run {self._runs + 1}", "")
        limit = time.monotonic() + _LEAVE_S
        while not self._store.check([f"gone {node}" for node in range(1, nodes)]) and time.monotonic() < limit:
            time.sleep(_POLL_S)

    def give(self, folder: Path) -> None:
        """Have the other machines start their ranks of the run in `folder`, which they find at the same path."""
        self._runs += 1
        self._store.set(f"run {self._runs}", str(folder))

    def end(self, nodes: int, within_s: float) -> None:
        """Have the other machines end their processes, and wait until they have."""
        self._store.set(f"over {self._runs}", "")
        limit = time.monotonic() + within_s
        waited = [f"done {self._runs} {node}" for node in range(1, nodes)]
        while not self._store.check(waited) and time.monotonic() < limit:
            time.sleep(_POLL_S)

    def wait_for_run(self) -> Path | None:
        """Wait for the next run; None once the first machine has gone."""
        self._runs += 1
        try:
            while not self._store.check([f"run {self._runs}"]):
                time.sleep(_POLL_S)
            folder = self._store.get(f"run {self._runs}").decode()
            if not folder:
                self._store.set(f"gone {self._node}", "")
            return Path(folder) if folder else None
        except RuntimeError:  # the connection
            return None

    def is_run_over(self) -> bool:
        """True if the run has ended on the first machine, or that machine has gone."""
        try:
            return self._store.check([f"over {self._runs}"])
        except RuntimeError:
            return True

    def report_done(self, node: int) -> None:
        """Say that nothing of the run is left on this machine."""
        try:
            self._store.set(f"done {self._runs} {node}", "")
        except RuntimeError:
            return  # the store is gone
