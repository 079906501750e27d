"""Folders at URLs, in fsspec's own memory."""

import os
from pathlib import Path

import fsspec
import pytest

from perfkit.core.errors import PerfkitError, RunFormatError
from perfkit.core.urls import fetch_folder, has_file, is_url, list_contents, list_files, send_folder
from perfkit.trace.readers.trace_sources import _open_remote


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"memory://{request.node.name}/runs/x"


def put(url: str, **files: str) -> None:
    for name, text in files.items():
        with fsspec.open(f"{url}/{name.replace('__', '/').replace('_', '.')}", "w") as file:
            file.write(text)


def text_of(url: str) -> str:
    with fsspec.open(url, "r") as file:
        return str(file.read())


def test_a_folder_is_copied_and_what_has_changed_is_written_back(url: str, tmp_path: Path) -> None:
    put(url, suite_json="1", amp__0__run_json="2", ckpt__0__run_json="3")
    before = fetch_folder(url, tmp_path)
    assert before.keys() == {"suite.json", "amp/0/run.json", "ckpt/0/run.json"}
    assert before == list_contents(tmp_path)
    assert send_folder(tmp_path, url, before, "suite.json") == 0

    (tmp_path / "suite.json").write_text("new")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "file").write_text("4")
    (tmp_path / ".lock").touch()
    (tmp_path / "ckpt" / "0" / "run.json").unlink()
    put(url, amp__0__run_json="not touched")
    assert send_folder(tmp_path, url, before, "suite.json") == 2
    assert list_files(url) == ("amp/0/run.json", "new/file", "suite.json")
    assert text_of(f"{url}/suite.json") == "new"
    assert text_of(f"{url}/amp/0/run.json") == "not touched"


def test_a_file_of_the_same_size_has_changed_by_its_time(url: str, tmp_path: Path) -> None:
    put(url, a="1")
    before = fetch_folder(url, tmp_path)
    (tmp_path / "a").write_text("2")
    os.utime(tmp_path / "a", ns=(1, 1))
    assert send_folder(tmp_path, url, before, "") == 1
    assert text_of(f"{url}/a") == "2"


def test_what_tells_the_folder_is_written_last(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    kind = type(fsspec.filesystem("memory"))
    monkeypatch.setattr(kind, "put_file", lambda self, here, there: written.append(there.rpartition("/")[2]))
    for name in ("a", "suite.json", "z"):
        (tmp_path / name).touch()
    send_folder(tmp_path, url, {}, "suite.json")
    assert written == ["a", "z", "suite.json"]


def test_what_cannot_be_written_is_told_with_where_all_of_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(PerfkitError, match=rf"nowhere://x: cannot be written .*; .* in {tmp_path}"):
        send_folder(tmp_path, "nowhere://x", {}, "a")


class NoCredentialsError(Exception):
    """As botocore has it, an Exception and nothing more."""


@pytest.mark.parametrize("error", [NoCredentialsError("no credentials"), NotImplementedError()])
def test_whatever_a_file_system_raises_is_told(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise error

    kind = type(fsspec.filesystem("memory"))
    for name in ("isfile", "exists", "put_file", "open"):
        monkeypatch.setattr(kind, name, fail)
    said = str(error) or "NotImplementedError"
    (tmp_path / "a").touch()
    with pytest.raises(PerfkitError, match=rf"cannot be written \({said}\); .* in {tmp_path}"):
        send_folder(tmp_path, url, {}, "a")
    for read in (lambda: has_file(url, "a"), lambda: list_files(url), lambda: _open_remote(url)):
        with pytest.raises(RunFormatError, match=rf"cannot be read \({said}\)"):
            read()


def test_a_folder_that_is_not_there(url: str, tmp_path: Path) -> None:
    assert list_files(url) == ()
    assert not has_file(url, "suite.json")
    with pytest.raises(RunFormatError, match="folder"):
        fetch_folder(url, tmp_path)
    with pytest.raises(RunFormatError, match="cannot be read"):
        list_files("nowhere://x")


def test_no_name_leads_out_of_the_folder(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfkit.core.urls.list_files", lambda url: ("a", "b/../../c"))
    with pytest.raises(RunFormatError, match="name"):
        fetch_folder(url, tmp_path / "here")


def test_a_url_has_a_scheme() -> None:
    assert is_url("s3://bucket/x")
    assert not is_url("runs/x")
