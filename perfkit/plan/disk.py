"""How fast pages of offloaded tensors are written to files and read back on this machine, timed with the store that
moves them. What they took is kept beside the measured ceilings.
"""

from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import torch

from perfkit.devices.cache import folder
from perfkit.devices.fingerprint import file_stem, fingerprint
from perfkit.devices.peak import CPU
from perfkit.errors import UnavailableError
from perfkit.files import read_json, write_json
from perfkit.plan.alpha_beta import Transfers, fitted
from perfkit.spec import Struct
from perfkit.techniques.paging import Store, disk_store

_SIZES = tuple(4**power for power in range(6, 13))  # 4 KiB, the least that is moved, to 16 MiB
_PAGES, _ROUNDS = 8, 5


class Paged(Struct):
    """A page of so many bytes was written and deleted, and read, in so many seconds."""

    bytes: int
    write_s: float
    read_s: float


class Measured(Struct):
    """All of them, in a folder of the file system that is mounted at `mount`."""

    schema_version: int = 1
    mount: str
    paged: tuple[Paged, ...]


class Disk(NamedTuple):
    """What it takes to write a page, which includes that it is deleted later, and to read one.

    `mount` is where the file system is mounted.
    """

    write: Transfers
    read: Transfers
    mount: str


def disk() -> Disk | None:
    """That of the folder for temporary files; None where it was not measured."""
    file = _file()
    return _known(read_json(file, Measured)) if file.exists() else None


def measure_disk() -> Disk | None:
    """Time it now, and keep what it took; None where temporary files are in memory."""
    counters: dict[str, float] = {}
    try:
        store = disk_store("", counters)
    except UnavailableError:
        return None
    try:
        measured = Measured(mount=mount_of(store.folder), paged=tuple(_paged(store, size) for size in _SIZES))
    finally:
        store.close()
    write_json(_file(), measured)
    return _known(measured)


def mount_of(path: Path) -> str:
    """Where the file system that a path lies in is mounted."""
    return str(next(parent for parent in (path, *path.parents) if parent.is_mount()))


def _file() -> Path:
    return folder() / "disk" / f"{file_stem(fingerprint(CPU, ''))}.json"


def _known(measured: Measured) -> Disk:
    pages = measured.paged
    return Disk(
        write=fitted((page.bytes, page.write_s) for page in pages),
        read=fitted((page.bytes, page.read_s) for page in pages),
        mount=measured.mount,
    )


def _paged(store: Store, size: int) -> Paged:
    rounds = [_round(store, size) for _ in range(_ROUNDS)]
    write_s, read_s = (min(taken) / _PAGES for taken in zip(*rounds, strict=True))  # others only add to it
    return Paged(bytes=size, write_s=write_s, read_s=read_s)


def _round(store: Store, size: int) -> tuple[float, float]:
    """Seconds to write pages and to delete them, and to read them. As in a step, all are there at once."""
    data = [torch.ones(size, dtype=torch.uint8) for _ in range(_PAGES)]
    start = perf_counter()
    pages = [store.put(each) for each in data]
    written = perf_counter()
    for page in pages:
        store.get(page, torch.UntypedStorage(0))
    read = perf_counter()
    del page, pages  # the last references
    return written - start + perf_counter() - read, read - written
