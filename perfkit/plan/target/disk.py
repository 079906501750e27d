"""Times writes and reads of offloaded pages on this machine, with the store that moves them.

Timings are stored next to the measured ceilings.
"""

from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import torch

from perfkit.core.cache_folder import get_cache_folder
from perfkit.core.errors import UnavailableError
from perfkit.core.files import read_json, write_json
from perfkit.core.spec import Struct
from perfkit.devices.accelerator import CPU
from perfkit.devices.machine.fingerprint import build_fingerprint, make_file_stem
from perfkit.plan.target.alpha_beta import TransferModel, fit_transfers
from perfkit.techniques.activations.paging import Store, make_disk_store

_SIZES = tuple(4**power for power in range(6, 13))  # 4 KiB, the smallest page, to 16 MiB
_PAGES, _ROUNDS = 8, 5


class PageTiming(Struct):
    """Page size in bytes, and seconds to write (including deletion) and to read."""

    bytes: int
    write_s: float
    read_s: float


class DiskTimings(Struct):
    """All timings of a folder on the file system mounted at `mount`."""

    schema_version: int = 1
    mount: str
    paged: tuple[PageTiming, ...]


class DiskSpeed(NamedTuple):
    """Models of writing a page, including its deletion, and of reading one.

    `mount` is the mount point of the file system.
    """

    write: TransferModel
    read: TransferModel
    mount: str


def load_disk() -> DiskSpeed | None:
    """The speed of the folder for temporary files; None if not measured."""
    file = _get_file()
    return _fit_disk(read_json(file, DiskTimings)) if file.exists() else None


def measure_disk() -> DiskSpeed | None:
    """Measure and store the speed; None if temporary files are in memory."""
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
    """Mount point of a path's file system."""
    return str(next(parent for parent in (path, *path.parents) if parent.is_mount()))


def _get_file() -> Path:
    return get_cache_folder() / "disk" / f"{make_file_stem(build_fingerprint(CPU.type, ''))}.json"


def _fit_disk(measured: DiskTimings) -> DiskSpeed:
    pages = measured.paged
    return DiskSpeed(
        write=fit_transfers((page.bytes, page.write_s) for page in pages),
        read=fit_transfers((page.bytes, page.read_s) for page in pages),
        mount=measured.mount,
    )


def _time_page_size(store: Store, size: int) -> PageTiming:
    rounds = [_time_round(store, size) for _ in range(_ROUNDS)]
    write_s, read_s = (min(seconds) / _PAGES for seconds in zip(*rounds, strict=True))  # other load only adds to it
    return PageTiming(bytes=size, write_s=write_s, read_s=read_s)


def _time_round(store: Store, size: int) -> tuple[float, float]:
    """Seconds to write and delete pages, and to read them, all of them at once as in a step."""
    data = [torch.ones(size, dtype=torch.uint8) for _ in range(_PAGES)]
    start = perf_counter()
    pages = [store.put(each) for each in data]
    written = perf_counter()
    for page in pages:
        store.get(page, torch.UntypedStorage(0))
    read = perf_counter()
    del page, pages  # the last references
    return written - start + perf_counter() - read, read - written
