"""At which addresses the machines' store listens."""

import socket
from collections.abc import Callable

import psutil
import pytest
from torch._C._distributed_c10d import TCPStore

from perfkit.core.errors import PerfkitError
from perfkit.measure.launch.store_server import serve_store

Resolve = Callable[[str], None]


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has a name mean these addresses, as a resolver would."""
    real = socket.getaddrinfo

    def to(name: str, *addresses: str) -> None:
        def find(host: str, port: int, *args: object, **options: object) -> list:
            named = addresses if host == name else (host,)
            return [entry for address in named for entry in real(address, port, *args, **options)]

        monkeypatch.setattr(socket, "getaddrinfo", find)

    return to


def listening_addresses(port: int) -> set[str]:
    connections = psutil.Process().net_connections("tcp")
    return {each.laddr.ip for each in connections if each.status == "LISTEN" and each.laddr.port == port}


def test_it_listens_at_the_named_address_only() -> None:
    served = serve_store("127.0.0.3", 0, within_s=5.0)
    assert listening_addresses(served.store.port) == {"127.0.0.3"}
    assert not served.notice
    other = TCPStore("127.0.0.3", served.store.port, is_master=False)
    other.set("key", "value")
    assert served.store.get("key") == b"value"
    with pytest.raises(PerfkitError, match=rf"^127\.0\.0\.3:{served.store.port}: "):
        serve_store("127.0.0.3", served.store.port, within_s=5.0)


def test_the_address_of_a_name_that_this_machine_has_is_taken(resolve: Callable[..., None]) -> None:
    resolve("localhost", "192.0.2.7", "127.0.0.4")
    served = serve_store("localhost", 0, within_s=5.0)
    assert (listening_addresses(served.store.port), served.notice) == ({"127.0.0.4"}, "")


@pytest.mark.parametrize("address", ["192.0.2.7", "127.0.1.1"])
def test_a_name_without_an_own_address_that_others_reach_is_listened_for_on_all(
    resolve: Callable[..., None], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    resolve("host1", address)
    opened: list[dict] = []

    def record(*args: object, **options: object) -> None:
        opened.append({"args": args, **options})

    monkeypatch.setattr("perfkit.measure.launch.store_server.TCPStore", record)
    assert "host1" in serve_store("host1", 29500, within_s=5.0).notice
    [store] = opened
    assert (store["args"][:2], store["master_listen_fd"]) == (("host1", 29500), None)


def test_a_name_that_nobody_knows_is_waited_for(resolve: Callable[..., None]) -> None:
    resolve("pod-0.service", "pod-0.service.invalid")
    with pytest.raises(PerfkitError, match=r"^pod-0\.service:1: "):
        serve_store("pod-0.service", 1, within_s=0.0)
