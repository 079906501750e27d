"""The secret by which the machines of a bench know each other: `$PERFKIT_SECRET`, else a file of the user's cache."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import NamedTuple

from perfkit.core.cache_folder import get_cache_folder
from perfkit.core.errors import PerfkitError

VARIABLE = "PERFKIT_SECRET"
# Whoever records a message can try secrets at leisure.
_LEAST_LENGTH = 16
_BYTES = 32


class JoinSecret(NamedTuple):
    """The key of all messages, and where it lies on this machine, for messages to the user."""

    key: bytes
    place: str


def load_join_secret() -> JoinSecret:
    """The secret of this machine, made on first use.

    A `PerfkitError` where it is short, can be read by other users, or cannot be kept.
    """
    if chosen := os.environ.get(VARIABLE):
        return _check_secret(chosen, f"${VARIABLE}")
    path = get_cache_folder() / "join-secret"
    try:
        if not path.exists():
            _create_secret(path)
        written, mode = path.read_text(), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise _make_error(
            f"{path} cannot be used ({reason}): set {VARIABLE} to the same value on all machines"
        ) from None
    if os.name == "posix" and mode & 0o077:
        raise _make_error(f"{path} can be read by other users: chmod 600 it, or remove it everywhere for a new secret")
    return _check_secret(written.strip(), str(path))


def make_secret() -> str:
    """A new secret, as text."""
    return secrets.token_hex(_BYTES)


def _create_secret(path: Path) -> None:
    """Write it whole before it has its name: several commands may begin at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(opened, "w") as file:
            file.write(make_secret() + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()


def _check_secret(secret: str, place: str) -> JoinSecret:
    if len(secret) < _LEAST_LENGTH:
        raise _make_error(f"the secret of {place} has {len(secret)} characters, but needs {_LEAST_LENGTH}")
    return JoinSecret(secret.encode(), place)


def _make_error(message: str) -> PerfkitError:
    return PerfkitError(message, id="join.secret")
