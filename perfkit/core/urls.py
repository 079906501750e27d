"""Reads and writes places through fsspec (`s3://bucket/runs/x`, `gs://`, `https://`, `file://`), and folders at
them."""

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from perfkit.core.errors import PerfkitError, RunFormatError, walk_exception_chain

# Size and time of change of every file of a folder, by its name from there.
Contents = Mapping[str, tuple[int, int]]


def is_url(name: str) -> bool:
    """True if fsspec is to open it."""
    return "://" in name


def open_file_system(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path in it."""
    from fsspec.core import url_to_fs  # with asyncio and what else it brings, which nothing on a disk needs

    system, path = url_to_fs(url)
    return system, path


@contextmanager
def translate_read_errors(url: str) -> Iterator[None]:
    """Translate errors of fsspec and its file systems in this block into errors that name `url`.

    Raises:
        RunFormatError: no such file, or it cannot be read.
        PerfkitError: the kind of URL needs another package.
    """
    with _handle_errors(lambda error: _raise_unreadable(url, error)):
        yield


@contextmanager
def _handle_errors(translate: Callable[[Exception], NoReturn]) -> Iterator[None]:
    """Translate any error of other packages in this block; the block must contain only their calls."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - each package has its own errors: botocore's are plain Exceptions
        translate(error)


def _format_error(error: Exception) -> str:
    return str(error) or type(error).__name__


def _raise_unreadable(url: str, error: Exception) -> NoReturn:
    if isinstance(error, ImportError):
        raise PerfkitError(f"{url}: this kind of URL needs another package: {error}") from None
    # Libraries wrap the cause: HTTP's reports a refused connection as a missing file.
    causes = (raised for raised in walk_exception_chain(error) if isinstance(raised, OSError) and raised.errno)
    cause = next(causes, None)
    if isinstance(error, FileNotFoundError) and (cause is None or cause.errno == errno.ENOENT):
        raise RunFormatError(f"{url}: no such file") from None
    raise RunFormatError(f"{url}: cannot be read ({_format_error(cause or error)})") from None


def has_file(url: str, name: str) -> bool:
    """True if the folder at `url` has a file `name`. Raises what `translate_read_errors` does if unknown."""
    with translate_read_errors(url):
        system, path = open_file_system(url)
        return bool(system.isfile(f"{path.rstrip('/')}/{name}"))


def list_files(url: str) -> tuple[str, ...]:
    """List the files below `url` by relative name; none if there is no such folder."""
    with translate_read_errors(url):
        system, path = open_file_system(url)
        names = [str(name) for name in system.find(path)] if system.exists(path) else []
    root = path.strip("/")
    inside = [PurePosixPath(name.strip("/")) for name in names]
    return tuple(sorted(str(name.relative_to(root)) for name in inside if name != PurePosixPath(root)))


def fetch_folder(url: str, folder: Path) -> Contents:
    """Copy the folder at `url` into `folder`, and return the contents of `folder`."""
    names = list_files(url)
    if not names:
        raise RunFormatError(f"{url}: no such folder, or an empty one")
    if any(".." in PurePosixPath(name).parts for name in names):
        raise RunFormatError(f"{url}: contains a name that points outside it")
    with translate_read_errors(url):
        system, path = open_file_system(url)
        for name in names:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(f"{path.rstrip('/')}/{name}", str(target))
    return list_contents(folder)


def send_folder(folder: Path, url: str, before: Contents, last: str) -> int:
    """Write the files of `folder` that changed since `before` to `url`, and delete removed ones there.

    The file called `last`, which identifies the folder, is written last. Returns the number of files written.

    Raises:
        PerfkitError: it cannot be written; `folder` has everything.
    """
    now = list_contents(folder)
    changed = sorted(name for name, what in now.items() if before.get(name) != what)
    changed.sort(key=lambda name: name == last)

    def translate(error: Exception) -> NoReturn:
        raise PerfkitError(f"{url}: cannot be written ({_format_error(error)}); everything is in {folder}") from None

    with _handle_errors(translate):
        system, path = open_file_system(url)
        root = path.rstrip("/")
        for name in changed:
            target = f"{root}/{name}"
            system.makedirs(target.rpartition("/")[0], exist_ok=True)
            system.put_file(str(folder / name), target)
        for name in before.keys() - now.keys():
            system.rm_file(f"{root}/{name}")
    return len(changed)


def list_contents(folder: Path) -> Contents:
    """List the contents of a folder, without hidden files such as locks; empty if there is no folder."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    stats = {path.relative_to(folder).as_posix(): path.stat() for path in files}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}
