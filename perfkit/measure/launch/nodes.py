"""Runs on several machines: the first announces each run and the end to the others through torch's TCPStore.

Whoever reaches the port can write there, so what names a machine or a run is signed (`node_messages`). The other
messages can only end a run.
"""

import contextlib
import secrets
import socket
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from torch.distributed import TCPStore

from perfkit.core.errors import PerfkitError, UsageError
from perfkit.measure.launch.join_secret import VARIABLE, load_join_secret
from perfkit.measure.launch.network import find_local_address
from perfkit.measure.launch.node_messages import NodeMessage, open_message, seal_message
from perfkit.measure.launch.store_server import serve_store

_POLL_S = 0.2
_CONNECT_S = 300.0
_LEAVE_S = 2.0
_FIRST = "first"  # under which the first machine's nonce lies
# Machines come when a cluster has them, and then fetch their images.
JOINED_WITHIN_S = 3600.0


def parse_endpoint(endpoint: str) -> tuple[str, int]:
    """`HOST:PORT`; torchrun's agents meet at the port after it. A `UsageError` for anything else."""
    host, colon, port = endpoint.rpartition(":")
    if not host or not colon or not port.isdecimal() or not 0 < int(port) < 65535:
        raise UsageError(f"--rdzv-endpoint: expected HOST:PORT of the first machine, got {endpoint!r}")
    return host, int(port)


def get_agents_port(endpoint: str) -> int:
    """The port at which torchrun's agents meet: the first machine announces its runs on the one before."""
    return parse_endpoint(endpoint)[1] + 1


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
        self._secret = load_join_secret()
        self._endpoint = endpoint
        self._runs = 0
        self._node = 0
        self._nonce = secrets.token_hex(16)
        self._joined: dict[int, NodeMessage] = {}  # what each has sent as it came; the value is its address
        if first:
            self._store, self._notice = serve_store(host, port, within_s=_CONNECT_S)
            self._first_nonce = self._nonce
            self._store.set(_FIRST, self._nonce)
        else:
            try:
                self._store = TCPStore(host, port, is_master=False, timeout=timedelta(seconds=_CONNECT_S))
                self._first_nonce = self._store.get(_FIRST).decode(errors="replace")
            except RuntimeError as error:
                reason = str(error).strip().splitlines()[0]
                raise PerfkitError(f"{endpoint}: the machines cannot rendezvous there ({reason})") from None

    def wait_for_others(self, nodes: int, report: Callable[[str], None], within_s: float = JOINED_WITHIN_S) -> None:
        """Wait until all machines have joined.

        A `PerfkitError` names those that have not, have left, or have another secret.
        """
        if self._notice:
            report(self._notice)
            self._notice = ""
        limit = time.monotonic() + within_s
        announced: list[int] = []
        while absent := [node for node in range(1, nodes) if not self._admit(node)]:
            if time.monotonic() > limit:
                ranks = ", ".join(map(str, absent))
                raise PerfkitError(
                    f"machine {ranks} of {nodes} has not joined; run `perfkit join {self._endpoint} "
                    "--node-rank K` there, and check that it can reach this machine"
                )
            if absent != announced:
                announced = absent
                report(
                    f"waiting for machine {announced[0]}: perfkit join {self._endpoint} --node-rank {announced[0]}, "
                    f"with the secret of {self._secret.place}"
                )
            time.sleep(_POLL_S)
        departed = [node for node in range(1, nodes) if self._store.check([f"left {node}"])]
        if departed:
            raise PerfkitError(
                f"machine {', '.join(map(str, departed))} of {nodes} has left: its `perfkit join` ended; "
                "continue with `perfkit bench --resume FOLDER` here and `perfkit join` there"
            )

    def _admit(self, node: int) -> bool:
        """True once the machine has joined; a `PerfkitError` if somebody says so who does not know the secret."""
        key = f"joined {node}"
        if node not in self._joined and self._store.check([key]):
            message = open_message(self._secret.key, key, self._first_nonce, self._store.get(key))
            if message is None:
                self._store.set(f"run 1 {node}", "")  # which the machine cannot take for a run, and says so
                self._wait_for([f"left {node}"], _LEAVE_S)
                raise self._make_secret_error(f"machine {node} has joined with another secret than this machine's")
            self._joined[node] = message
        return node in self._joined

    def join(self, node: int) -> None:
        """Say that this is the machine `node`, and there, and by which of its addresses it came."""
        self._node = node
        key, address = f"joined {node}", find_local_address(parse_endpoint(self._endpoint)[0])
        self._store.set(key, self._seal(key, self._nonce, address))

    def announce_quit(self) -> None:
        """Announce that this machine leaves, though the first may go on."""
        with contextlib.suppress(RuntimeError):  # the store is gone
            self._store.set(f"left {self._node}", "")

    def get_node_address(self, node: int) -> str:
        """That of a machine that has joined."""
        return self._joined[node].value

    def leave(self) -> None:
        """Release the machines that have joined, and give them a moment to notice while this store exists."""
        self._runs += 1
        self._send_run("")
        self._wait_for([f"gone {node}" for node in self._joined], _LEAVE_S)

    def give(self, folder: Path) -> None:
        """Have the other machines start their ranks of the run in `folder`, which they find at the same path."""
        self._runs += 1
        self._send_run(str(folder))

    def _send_run(self, folder: str) -> None:
        for node, joined in self._joined.items():
            key = f"run {self._runs} {node}"
            self._store.set(key, self._seal(key, joined.nonce, folder))

    def _seal(self, key: str, nonce: str, value: str) -> str:
        return seal_message(self._secret.key, key, self._first_nonce, nonce, value).decode()

    def end(self, nodes: int, within_s: float) -> None:
        """Have the other machines end their processes, and wait until they have."""
        self._store.set(f"over {self._runs}", "")
        self._wait_for([f"done {self._runs} {node}" for node in range(1, nodes)], within_s)

    def _wait_for(self, keys: list[str], within_s: float) -> None:
        """Wait until all keys are there, or the time is over."""
        limit = time.monotonic() + within_s
        while keys and not self._store.check(keys) and time.monotonic() < limit:
            time.sleep(_POLL_S)

    def wait_for_run(self) -> Path | None:
        """Wait for the next run; None once the first machine has gone.

        A `PerfkitError` where somebody names one who does not know the secret.
        """
        self._runs += 1
        key = f"run {self._runs} {self._node}"
        try:
            while not self._store.check([key]):
                time.sleep(_POLL_S)
            data = self._store.get(key)
        except RuntimeError:  # the connection
            return None
        message = open_message(self._secret.key, key, self._first_nonce, data)
        if message is None or message.nonce != self._nonce:
            raise self._make_secret_error("whoever listens there has another secret than this machine's")
        if message.value:
            return Path(message.value)
        with contextlib.suppress(RuntimeError):  # the store is gone
            self._store.set(f"gone {self._node}", "")
        return None

    def _make_secret_error(self, problem: str) -> PerfkitError:
        return PerfkitError(
            f"{self._endpoint}: {problem}, {self._secret.place}; set the same {VARIABLE} on all machines, or copy the "
            "first machine's join-secret file to the others, and start all again",
            id="join.secret",
        )

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
