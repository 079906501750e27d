"""Folders given by URL: a command works on a local copy, and its changes are written back."""

from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from perfkit.core.errors import UsageError
from perfkit.core.urls import fetch_folder, has_file, is_url, list_files, send_folder
from perfkit.store.layout import SUITE_FILE
from perfkit.store.named_variant import AT, list_splits
from perfkit.store.summary import SUMMARY_FILE

_HERE = Path("runs")


if TYPE_CHECKING:
    _Type = click.ParamType[Path]
else:
    _Type = click.ParamType  # of which older clicks have no kinds


class FolderOrUrl(_Type):
    """A `Path`; for a URL, that of its copy in `runs`, and `get_url` returns the URL. A `new` one must not exist."""

    name = "folder"

    def __init__(self, *, new: bool = False) -> None:
        self._new = new

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if isinstance(value, Path) or not is_url(value):
            return Path(value)
        here = _find_free_folder(_HERE / _get_url_name(value))
        if ctx is None or param is None or ctx.resilient_parsing:
            return here
        ctx.meta[_make_key(param.name)] = value
        if ctx.params.get("launcher") != "kubernetes":  # which runs nothing here
            before = self._fetch_before(value, here)
            ctx.call_on_close(lambda: _send_back(here, value, before))
        return here

    def _fetch_before(self, url: str, here: Path) -> Any:
        if not self._new:
            contents = fetch_folder(url, here)
            click.echo(f"copied {url} to {here}", err=True)
            return contents
        if list_files(url):
            raise UsageError(
                f"{url} already exists; name another URL, or add to the suite with --into", id="usage.occupied"
            )
        return {}


def get_url(ctx: click.Context, option: str) -> str | None:
    """The URL that an option of this type was given; None where it was a folder of this machine, or nothing."""
    url: str | None = ctx.meta.get(_make_key(option))
    return url


def make_local_copy(ctx: click.Context, named: str) -> str:
    """Make a local copy of a suite or report at a URL, until the command ends; other names are returned as they are.

    `URL@VARIANT` is a copy, too. Anything else is returned as it is.
    """
    if not is_url(named):
        return named
    splits = list_splits(named) if AT in _get_url_name(named) else ((named, ""),)
    found = next((split for split in splits if _has_result(split[0])), None)
    if found is None:
        return named
    folder, variant = found
    copies = TemporaryDirectory(prefix="perfkit-copy-")
    ctx.call_on_close(copies.cleanup)
    here = Path(copies.name) / _get_url_name(folder)
    fetch_folder(folder, here)
    return f"{here}{AT}{variant}" if variant else str(here)


def _has_result(url: str) -> bool:
    return any(has_file(url, marker) for marker in (SUITE_FILE, SUMMARY_FILE))


def _send_back(here: Path, url: str, before: Any) -> None:
    if send_folder(here, url, before, last=SUITE_FILE):
        click.echo(f"copied {here} to {url}", err=True)


def _make_key(option: str | None) -> str:
    return f"{__name__}.{option}"


def _get_url_name(url: str) -> str:
    """The last part of a URL's path."""
    name = PurePosixPath(url.partition("://")[2].partition("?")[0].rstrip("/")).name
    if not name:
        raise UsageError(f"{url}: expected the URL of a folder, such as s3://bucket/runs/x")
    return name


def _find_free_folder(folder: Path) -> Path:
    """`folder`, or the next free `folder-2`."""
    number, free = 1, folder
    while free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free
