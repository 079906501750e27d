"""By which of its networks a machine reaches another one, for Gloo, which else takes that of the machine's own name.

That is often the loopback interface: Debian's installer maps a machine's name to 127.0.1.1.
"""

import contextlib
import os
import socket

import psutil

GLOO_INTERFACES = "GLOO_SOCKET_IFNAME"


def find_local_address(host: str) -> str:
    """This machine's own address on the way to `host`; "" if unknown. Nothing is sent."""
    with contextlib.suppress(OSError):
        family, kind, protocol, _, where = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as way:
            way.connect(where)
            return str(way.getsockname()[0])
    return ""


def build_gloo_variables(host: str) -> dict[str, str]:
    """Variables that bind Gloo to the network of `host`, unless the user has named one or it is unknown."""
    address = find_local_address(host)
    names = (name for name, known in psutil.net_if_addrs().items() if address in (entry.address for entry in known))
    name = next(names, "")
    return {GLOO_INTERFACES: name} if name and GLOO_INTERFACES not in os.environ else {}
