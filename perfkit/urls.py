"""Reads and writes places through fsspec (`s3://bucket/runs/x`, `gs://`, `https://`, `file://`), and folders at
them."""

import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from perfkit.errors import PerfkitError, RunFormatError, walk_exception_chain

# Size and time of change of every file of a folder, by its name from there.
Contents = Mapping[str, tuple[int, int]]


def is_url(name: str) -> bool:
    """Whether fsspec is to open it."""
    return "://" in name


def open_file_system(url: str) -> tuple[Any, str]:
    """fsspec's file system of a URL, and the path in it."""
    from fsspec.core import url_to_fs  # with asyncio and what else it brings, which nothing on a disk needs

    system, path = url_to_fs(url)
    return system, path


@contextmanager
def translate_read_errors(url: str) -> Iterator[None]:
    """What fsspec and the file systems behind it raise in this block is told as `url` that cannot be read.

    Raises:
        RunFormatError: there is no such file, or it cannot be read.
        PerfkitError: the kind of URL needs another package.
    """
    with _handle_errors(lambda error: _raise_unreadable(url, error)):
        yield


@contextmanager
def _handle_errors(tell: Callable[[Exception], NoReturn]) -> Iterator[None]:
    """A block in which other packages work. Only what they do belongs into it."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - each has errors of its own: botocore's are plain Exceptions
        tell(error)


def _format_error(error: Exception) -> str:
    return str(error) or type(error).__name__


def _raise_unreadable(url: str, error: Exception) -> NoReturn:
    if isinstance(error, ImportError):
        raise PerfkitError(f"{url}: this kind of URL needs another package: {error}") from None
    # Libraries wrap what went wrong: a refused connection comes out of HTTP's as a file that is not there.
    behind = next((each for each in walk_exception_chain(error) if isinstance(each, OSError) and each.errno), None)
    if isinstance(error, FileNotFoundError) and (behind is None or behind.errno == errno.ENOENT):
        raise RunFormatError(f"{url}: no such file") from None
    raise RunFormatError(f"{url}: cannot be read ({_format_error(behind or error)})") from None


def has_file(url: str, name: str) -> bool:
    """Whether there is a file `name` in the folder at `url`. Raises what `translate_read_errors` does where that cannot
    be told.
    """
    with translate_read_errors(url):
        system, path = open_file_system(url)
        found = system.isfile(f"{path.rstrip('/')}/{name}")
    return bool(found)


def list_files(url: str) -> tuple[str, ...]:
    """The files in the folder at `url` and in those below, by their names from there; none where there is no folder."""
    with translate_read_errors(url):
        system, path = open_file_system(url)
        found = [str(name) for name in system.find(path)] if system.exists(path) else []
    root = path.strip("/")
    inside = [PurePosixPath(name.strip("/")) for name in found]
    return tuple(sorted(str(name.relative_to(root)) for name in inside if name != PurePosixPath(root)))


def fetch_folder(url: str, folder: Path) -> Contents:
    """Copy the folder at `url`, and say what `folder` holds then."""
    names = list_files(url)
    if not names:
        raise RunFormatError(f"{url}: no such folder, or an empty one")
    if any(".." in PurePosixPath(name).parts for name in names):
        raise RunFormatError(f"{url}: a name in it leads out of it")
    with translate_read_errors(url):
        system, path = open_file_system(url)
        for name in names:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(f"{path.rstrip('/')}/{name}", str(target))
    return list_contents(folder)


def send_folder(folder: Path, url: str, before: Contents, last: str) -> int:
    """Write to `url` what is new or other in `folder` than it was `before`, and remove there what has gone.

    The file called `last`, by which others know what the folder is, follows all else. Returns how many files were
    written.

    Raises:
        PerfkitError: it cannot be written; what is in `folder` is all that there is.
    """
    now = list_contents(folder)
    changed = sorted(name for name, what in now.items() if before.get(name) != what)
    changed.sort(key=lambda name: name == last)

    def tell(error: Exception) -> NoReturn:
        raise PerfkitError(f"{url}: cannot be written ({_format_error(error)}); all of it is in {folder}") from None

    with _handle_errors(tell):
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
    """What a folder holds, but for hidden files, such as locks; nothing where it is not there."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    stats = {path.relative_to(folder).as_posix(): path.stat() for path in files}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()}
