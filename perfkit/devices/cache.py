"""Measured ceilings, kept per machine: one JSON file per fingerprint under the user's cache folder."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from perfkit.devices.ceiling import Ceiling, DeviceCeilings
from perfkit.devices.fingerprint import file_stem
from perfkit.devices.repeats import KernelRepeats
from perfkit.errors import PerfkitError, RunFormatError
from perfkit.files import read_json, write_json
from perfkit.spec import Struct

CACHE_VERSION = 1


class Cached(Struct):
    """What is known of one machine. `full` lists the numbers of threads (None on a GPU) calibrated in full."""

    schema_version: int = CACHE_VERSION
    measured: DeviceCeilings
    full: tuple[int | None, ...] = ()
    repeats: tuple[KernelRepeats, ...] = ()

    def threads(self) -> frozenset[int | None]:
        """The numbers of threads that have been calibrated."""
        return frozenset(ceiling.threads for ceiling in self.measured.ceilings)


def folder() -> Path:
    """`$PERFKIT_CACHE`, or `perfkit` in the platform's folder for caches."""
    if chosen := os.environ.get("PERFKIT_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "perfkit" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/perfkit"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perfkit"


def path(fingerprint: str) -> Path:
    """The file that holds the measured ceilings of a machine."""
    return folder() / "ceilings" / f"{file_stem(fingerprint)}.json"


def load(fingerprint: str) -> Cached | None:
    """What was measured on this machine, or None. A file that cannot be read is a `RunFormatError`."""
    file = path(fingerprint)
    if not file.exists():
        return None
    cached = read_json(file, Cached)
    if cached.measured.fingerprint != fingerprint:
        raise RunFormatError(
            f"{file}: holds the ceilings of another machine ({cached.measured.fingerprint}); delete it"
        )
    return cached


def store(measured: DeviceCeilings, repeats: Sequence[KernelRepeats], *, full: bool) -> Cached:
    """Merge a calibration into the cache and return what the cache holds now.

    New numbers of threads are added. For one that is there already the newer calibration counts, except that
    a short one never replaces a full one. A file that cannot be read is replaced; where none can be written,
    the ceilings are returned all the same, with a note.
    """
    try:
        old = load(measured.fingerprint)
    except RunFormatError:
        old = None
    new = merge(old, measured, repeats, full=full)
    try:
        write_json(path(measured.fingerprint), new)
    except PerfkitError as error:
        note = f"the calibration could not be kept and will be repeated next time: {error}"
        kept = msgspec.structs.replace(new.measured, notes=(*new.measured.notes, note))
        return msgspec.structs.replace(new, measured=kept)
    return new


def merge(old: Cached | None, measured: DeviceCeilings, repeats: Sequence[KernelRepeats], *, full: bool) -> Cached:
    """`old` with the ceilings of another calibration of the same machine; see `store` for which counts."""
    fresh = frozenset(ceiling.threads for ceiling in measured.ceilings)
    if old is None:
        return Cached(measured=measured, full=_order(fresh) if full else (), repeats=tuple(repeats))
    taken = fresh if full else fresh - set(old.full)
    if not taken:
        return old
    return Cached(
        measured=DeviceCeilings(
            device=measured.device,
            device_name=measured.device_name,
            fingerprint=measured.fingerprint,
            measured_at=measured.measured_at,
            ceilings=(*_of(old.measured.ceilings, old.threads() - taken), *_of(measured.ceilings, taken)),
            notes=measured.notes
            if old.threads() <= taken
            else tuple(dict.fromkeys((*old.measured.notes, *measured.notes))),
        ),
        full=_order(set(old.full) | taken if full else set(old.full)),
        repeats=(
            *(kernel for kernel in old.repeats if kernel.threads not in taken),
            *(kernel for kernel in repeats if kernel.threads in taken),
        ),
    )


def _of(ceilings: Sequence[Ceiling], threads: frozenset[int | None]) -> tuple[Ceiling, ...]:
    return tuple(ceiling for ceiling in ceilings if ceiling.threads in threads)


def _order(threads: frozenset[int | None] | set[int | None]) -> tuple[int | None, ...]:
    return tuple(sorted(threads, key=lambda count: count or 0))
