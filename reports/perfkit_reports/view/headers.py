"""The headers that every answer carries, so that a page shown here can reach nothing else, and no other page can
reach this one."""

from perfkit_reports.render.page import POLICY

# Everything is ours and comes from here. plotly.js writes styles, and no script but the files we serve can run.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

# A report may come from somebody else: in a sandbox it has no origin, and so cannot ask for other runs.
FILE_POLICY = f"sandbox allow-scripts allow-downloads allow-modals; {POLICY}; frame-ancestors 'none'"

COMMON = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def is_loopback(host: str) -> bool:
    """Whether an address to bind to is reached from this machine alone."""
    return host in _LOOPBACK or host.startswith("127.")


def is_own_host(host_header: str | None) -> bool:
    """Whether a request's `Host` is this machine itself, on any port (a tunnel may have another one).

    A page of another site can have its own name point to 127.0.0.1 (DNS rebinding); its requests still carry that name.
    """
    if not host_header:
        return False
    host, bracket, rest = host_header.strip().lower().removeprefix("[").partition("]")
    if not bracket:
        host, _, rest = host.partition(":")
        rest = f":{rest}" if rest else ""
    return is_loopback_name(host) and (not rest or (rest[0] == ":" and rest[1:].isdecimal()))


def is_loopback_name(host: str) -> bool:
    return host in _LOOPBACK
