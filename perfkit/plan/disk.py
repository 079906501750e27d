"""How fast pages of offloaded tensors are written to files and read back on this machine, timed with the store that
moves them. What they took is kept beside the measured ceilings.
"""

from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import torch

from perfkit.devices.ceilings_cache import get_cache_folder
from perfkit.devices.fingerprint import build_fingerprint, make_file_stem
from perfkit.devices.peak import CPU
from perfkit.errors import UnavailableError
from perfkit.files import read_json, write_json
from perfkit.plan.alpha_beta import TransferModel, fit_transfers
from perfkit.spec import Struct
from perfkit.techniques.paging import Store, make_disk_store

_SIZES = tuple(4**power for power in range(6, 13))  # 4 KiB, the least that is moved, to 16 MiB
_PAGES, _ROUNDS = 8, 5


class PageTiming(Struct):
    """A page of so many bytes was written and deleted, and read, in so many seconds."""

    bytes: int
    write_s: float
    read_s: float


class DiskTimings(Struct):
    """All of them, in a folder of the file system that is mounted at `mount`."""

    schema_version: int = 1
    mount: str
    paged: tuple[PageTiming, ...]


class DiskSpeed(NamedTuple):
    """What it takes to write a page, which includes that it is deleted later, and to read one.

    `mount` is where the file system is mounted.
    """

    write: TransferModel
    read: TransferModel
    mount: str


def load_disk() -> DiskSpeed | None:
    """That of the folder for temporary files; None where it was not measured."""
    file = _get_file()
    return _fit_disk(read_json(file, DiskTimings)) if file.exists() else None


def measure_disk() -> DiskSpeed | None:
    """Time it now, and keep what it took; None where temporary files are in memory."""
    counters: dict[str, float] = {}
    try:
        store = make_disk_store("", counters)
    except UnavailableError:
        return None
    try:
        measured = DiskTimings(
            mount=find_mount(store.folder), paged=tuple(_time_page_size(store, size) for size in _SIZES)
        )
    finally:
        store.close()
    write_json(_get_file(), measured)
    return _fit_disk(measured)


def find_mount(path: Path) -> str:
    """Where the file system that a path lies in is mounted."""
    return str(next(parent for parent in (path, *path.parents) if parent.is_mount()))


def _get_file() -> Path:
    return get_cache_folder() / "disk" / f"{make_file_stem(build_fingerprint(CPU, ''))}.json"


def _fit_disk(measured: DiskTimings) -> DiskSpeed:
    pages = measured.paged
    return DiskSpeed(
        write=fit_transfers((page.bytes, page.write_s) for page in pages),
        read=fit_transfers((page.bytes, page.read_s) for page in pages),
        mount=measured.mount,
    )


def _time_page_size(store: Store, size: int) -> PageTiming:
    rounds = [_time_round(store, size) for _ in range(_ROUNDS)]
    write_s, read_s = (min(taken) / _PAGES for taken in zip(*rounds, strict=True))  # others only add to it
    return PageTiming(bytes=size, write_s=write_s, read_s=read_s)


def _time_round(store: Store, size: int) -> tuple[float, float]:
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
