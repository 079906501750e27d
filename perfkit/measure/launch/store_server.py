"""Serves torch's TCPStore at one address of this machine; torch itself listens on all of them."""

import errno
import ipaddress
import socket
import time
from datetime import timedelta
from typing import Any, NamedTuple

from torch.distributed import TCPStore

from perfkit.core.errors import PerfkitError

_POLL_S = 0.2


class ServedStore(NamedTuple):
    """A store of this process; `notice` says so where it listens on all addresses."""

    store: TCPStore
    notice: str


def serve_store(host: str, port: int, *, within_s: float, world_size: int | None = None) -> ServedStore:
    """Serve a store at the address that `host` names; port 0 takes a free one.

    A name behind address translation is no address of this machine, and Debian's installer maps a machine's own name to
    127.0.1.1, which no other machine reaches: then all addresses are listened on. A `PerfkitError` where the port is
    taken, or the name unknown after `within_s`: that of a pod appears after the pod.
    """
    listener = _bind_listener(host, port, within_s)
    address = host
    if listener is not None:
        address, port = listener.getsockname()[:2]
    try:
        store = TCPStore(
            address,
            port,
            world_size,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=within_s),
            # From here on the store closes it.
            master_listen_fd=None if listener is None else listener.detach(),
        )
    except RuntimeError as error:
        raise _make_refusal(host, port, str(error).strip().splitlines()[0]) from None
    notice = f"listening on all addresses: {host} names none of this machine's own" if listener is None else ""
    return ServedStore(store, notice)


def require_free_port(port: int, purpose: str) -> None:
    """Raise a `PerfkitError` if another program listens at `port` of this machine, which is for `purpose`."""
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=dual).close()
    except OSError as error:
        reason = error.strerror or error
        raise PerfkitError(
            f"port {port} of this machine is for {purpose} and cannot be used ({reason}): choose another port in "
            "--rdzv-endpoint"
        ) from None


def _bind_listener(host: str, port: int, within_s: float) -> socket.socket | None:
    """A listening socket at the first address of `host` that this machine has; None if it has none."""
    for family, address in _resolve_host(host, port, within_s):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen()
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRNOTAVAIL:
                raise _make_refusal(host, port, error.strerror or str(error)) from None
        else:
            return listener
    return None


def _resolve_host(host: str, port: int, within_s: float) -> list[tuple[socket.AddressFamily, Any]]:
    """Addresses of `host` by which other machines can mean this one; loopback only where it is written so."""
    limit = time.monotonic() + within_s
    while True:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            break
        except OSError as error:
            if time.monotonic() > limit:
                raise _make_refusal(host, port, error.strerror or str(error)) from None
            time.sleep(_POLL_S)
    is_local = host == "localhost" or _is_loopback(host)
    return [(family, where) for family, _, _, _, where in found if is_local or not _is_loopback(str(where[0]))]


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:  # a name
        return False


def _make_refusal(host: str, port: int, reason: str) -> PerfkitError:
    return PerfkitError(f"{host}:{port}: the machines cannot rendezvous there ({reason})")
