"""Stores for offloaded bytes: a file on disk, or pinned host memory.

Both kinds of store move whole storages as flat bytes and count what they move. A page is what a store hands out
for stored bytes; when the last reference to it is gone, so is what it holds.
"""

import ctypes
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import psutil
import torch

from perfkit.core.errors import UnavailableError
from perfkit.devices.accelerator import get_accelerator, is_cpu

# Tensors smaller than this stay: a file or a copy would cost more than their memory.
MIN_BYTES = 4096

# File systems that keep their files in memory: writing to them would free nothing.
_MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})


class StoredPage(Protocol):
    """Bytes that were put into a store."""

    @property
    def nbytes(self) -> int: ...


class Store(Protocol):
    """Moves bytes out of the training device's memory and back."""

    def put(self, data: torch.Tensor) -> StoredPage:
        """Copy a flat uint8 tensor away; the caller may free its memory as soon as this returns."""
        ...

    def get(self, page: StoredPage, into: torch.UntypedStorage) -> None:
        """Give an empty storage the page's size and contents."""
        ...

    def close(self) -> None:
        """Delete everything stored."""
        ...


class DiskPage:
    """A file that is deleted with its page."""

    def __init__(self, path: Path, nbytes: int) -> None:
        self.path = path
        self.nbytes = nbytes
        weakref.finalize(self, path.unlink, missing_ok=True)


class DiskStore:
    """A temporary folder of files, one per page, written and read at once through the operating system's cache."""

    def __init__(self, folder: Path, counters: dict[str, float]) -> None:
        self.folder = folder
        self._counters = counters
        self._pages = 0
        for name in ("bytes_to_disk", "bytes_from_disk"):
            counters.setdefault(name, 0.0)

    def put(self, data: torch.Tensor) -> DiskPage:
        host = data.cpu()
        page = DiskPage(self.folder / str(self._pages), data.numel())
        self._pages += 1
        with page.path.open("xb", buffering=0) as file:
            _write_all(file.write, _view_memory(host))
        self._counters["bytes_to_disk"] += page.nbytes
        return page

    def get(self, page: StoredPage, into: torch.UntypedStorage) -> None:
        assert isinstance(page, DiskPage)
        into.resize_(page.nbytes)
        data = view_as_bytes(into)
        host = data if is_cpu(data.device) else torch.empty(page.nbytes, dtype=torch.uint8, pin_memory=True)
        with page.path.open("rb", buffering=0) as file:
            _read_all(file.readinto, _view_memory(host))
        if host is not data:
            data.copy_(host)
        self._counters["bytes_from_disk"] += page.nbytes

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class HostPage:
    """Pinned host memory, with the event after which it holds the bytes."""

    def __init__(self, data: torch.Tensor, ready: torch.Event) -> None:
        self.data = data
        self.ready = ready

    @property
    def nbytes(self) -> int:
        return self.data.numel()


class HostStore:
    """Pinned host memory, copied to and from on two separate streams, so that copies overlap with computing."""

    def __init__(self, device: torch.device, counters: dict[str, float]) -> None:
        self._counters = counters
        self._runtime = get_accelerator(device).runtime
        self._out = self._runtime.Stream(device)
        self._in = self._runtime.Stream(device)
        for name in ("bytes_to_host", "bytes_from_host"):
            counters.setdefault(name, 0.0)

    def put(self, data: torch.Tensor) -> HostPage:
        host = torch.empty(data.numel(), dtype=torch.uint8, pin_memory=True)
        self._out.wait_stream(self._runtime.current_stream(data.device))
        with self._runtime.stream(self._out):
            host.copy_(data, non_blocking=True)
            ready = self._runtime.Event()
            ready.record(self._out)
        data.record_stream(self._out)  # its memory is not given to anyone else before the copy has read it
        self._counters["bytes_to_host"] += data.numel()
        return HostPage(host, ready)

    def get(self, page: StoredPage, into: torch.UntypedStorage) -> None:
        assert isinstance(page, HostPage)
        # The memory is allocated on the copying stream: it is not in use by computation still queued, so the copy
        # need not wait for it.
        with self._runtime.stream(self._in):
            self._in.wait_event(page.ready)
            into.resize_(page.nbytes)
            data = view_as_bytes(into)
            data.copy_(page.data, non_blocking=True)
        computing = self._runtime.current_stream(data.device)
        computing.wait_stream(self._in)
        data.record_stream(computing)
        self._counters["bytes_from_host"] += page.nbytes

    def close(self) -> None:
        self._runtime.synchronize(self._out.device)


def make_disk_store(folder: str, counters: dict[str, float]) -> DiskStore:
    """A store in a new temporary folder within `folder`; raises `UnavailableError` if files there live in memory."""
    parent = Path(folder or tempfile.gettempdir()).resolve()
    if not parent.is_dir():
        raise UnavailableError(f"offload to disk: no such folder {parent}; name one with offload:folder=DIR")
    kind = _detect_file_system(parent)
    if kind in _MEMORY_FILE_SYSTEMS:
        raise UnavailableError(
            f"offload to disk: {parent} is a {kind}, which keeps files in memory; name a folder on a disk with "
            "offload:folder=DIR"
        )
    return DiskStore(Path(tempfile.mkdtemp(prefix="perfkit-offload-", dir=parent)), counters)


def view_as_bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    """A uint8 tensor over a whole storage."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _detect_file_system(path: Path) -> str:
    """The kind of file system a folder is on (`ext4`, `tmpfs`), empty where the system does not tell."""
    mounts = {Path(mount.mountpoint): mount.fstype for mount in psutil.disk_partitions(all=True)}
    return next((mounts[parent] for parent in (path, *path.parents) if parent in mounts), "")


def _view_memory(data: torch.Tensor) -> memoryview:
    """The memory of a flat CPU tensor, for as long as the tensor lives.

    Not through NumPy, which would mark the storage as shared and so forbid to give up its memory.
    """
    return memoryview((ctypes.c_ubyte * data.numel()).from_address(data.data_ptr())).cast("B")


def _write_all(write: Callable[[memoryview], int | None], data: memoryview) -> None:
    while len(data):  # a system call moves at most 2 GiB
        data = data[write(data) or 0 :]


def _read_all(read: Callable[[memoryview], int | None], data: memoryview) -> None:
    while len(data):
        count = read(data)
        if not count:
            raise OSError("a page of offloaded data is shorter than written")
        data = data[count:]
