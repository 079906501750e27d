"""Headers of every response: pages can reach nothing else, and other pages cannot reach them."""

from perfkit_reports.render.page import POLICY

# All content is served here. plotly.js writes inline styles; only served scripts can run.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

# Reports may be untrusted: in a sandbox they have no origin and cannot request other runs.
FILE_POLICY = f"sandbox allow-scripts allow-downloads allow-modals; {POLICY}; frame-ancestors 'none'"

COMMON = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def is_loopback(host: str) -> bool:
    """True if an address to bind to is reachable only from this machine."""
    return host in _LOOPBACK or host.startswith("127.")


def is_own_host(host_header: str | None) -> bool:
    """True if a request's `Host` is this machine, on any port (tunnels may use another one).

    Other sites can resolve their name to 127.0.0.1 (DNS rebinding), but their requests carry that name.
    """
    if not host_header:
        return False
    host, bracket, port = host_header.strip().lower().removeprefix("[").partition("]")
    if not bracket:
        host, _, port = host.partition(":")
        port = f":{port}" if port else ""
    return is_loopback_name(host) and (not port or (port[0] == ":" and port[1:].isdecimal()))


def is_loopback_name(host: str) -> bool:
    return host in _LOOPBACK
