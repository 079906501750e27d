import errno
import os
import re
from pathlib import Path

import pytest

from perfkit.core.errors import OlderFormatError, PerfkitError, RunFormatError
from perfkit.core.files import decode_json, open_log, read_json, write_bytes, write_json
from perfkit.core.spec import Struct


class Thing(Struct):
    schema_version: int = 3
    length_m: float
    name: str = ""


def test_a_file_of_todays_format_or_without_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "thing.json"
    for text, expected in [
        ('{"schema_version": 3, "length_m": 2, "name": "x"}', Thing(length_m=2, name="x")),
        ('{"length_m": 2}', Thing(length_m=2)),
    ]:
        path.write_text(text)
        assert read_json(path, Thing) == expected


def test_an_older_format_is_refused_with_both_versions_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "thing.json"
    path.write_text('{"schema_version": 2, "length_m": 2}')
    with pytest.raises(OlderFormatError, match=r"thing\.json: .*format 2\b.* 3\b.*weigh it again") as refused:
        read_json(path, Thing, remedy="weigh it again")
    assert refused.value.id == "file.older_format"


def test_newer_formats_and_other_files_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "thing.json"
    for text, message, id in [
        ('{"schema_version": 4, "length_m": 2}', "format 4\\b.* 3\\b", "file.newer_format"),
        ('{"schema_version": "1", "length_m": 2}', r"\$\.schema_version", "file.unreadable"),
        ("[1]", "not a valid Thing", "file.unreadable"),
        ("{", "not a valid Thing", "file.unreadable"),
    ]:
        path.write_text(text)
        with pytest.raises(RunFormatError, match=rf"thing\.json: .*{message}") as refused:
            read_json(path, Thing)
        assert refused.value.id == id
    with pytest.raises(RunFormatError, match=r"none\.json: "):
        read_json(tmp_path / "none.json", Thing)


class Unversioned(Struct):
    x: dict[str, str]


class Parcel(Struct):
    schema_version: int = 12
    weights: dict[str, float | None]
    label: str
    sealed: bool
    counts: tuple[int, ...]


_PARCEL = """{"schema_version": %d, "weights": {"a\\u00e9\\"": -12.5e-10, "b": null, "c": 1E+5, "d": -3},
 "label": "h\u00e9 \U0001f600 \\\\ 1.", "sealed": true, "counts": [1, -20, 300]%s}"""


@pytest.mark.parametrize("written", [_PARCEL % (12, ""), _PARCEL % (12, ', "foreign": {}')])
def test_a_file_that_ends_in_the_middle_is_truncated_wherever_it_was_cut(written: str) -> None:
    data = written.encode()
    for kept in range(len(data)):
        with pytest.raises(RunFormatError) as refused:
            decode_json("parcel.json", data[:kept], Parcel)
        assert re.match(r"parcel\.json: .*Parcel.*truncated", str(refused.value)), data[:kept]


@pytest.mark.parametrize(
    "text", ['{"sealed": 1.}', '{"sealed": -, "label": ""}', '{"label": "x"}}', "12a", '{"label": "\\x"}', "{'a': 1}"]
)
def test_damage_within_a_file_is_not_called_truncated(text: str) -> None:
    with pytest.raises(RunFormatError, match=r"malformed|missing|Expected") as refused:
        decode_json("parcel.json", text.encode(), Parcel)
    assert "truncated" not in str(refused.value)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_json(tmp_path / "deep/thing.json", Thing(length_m=1.25, name="y"))
    assert read_json(tmp_path / "deep/thing.json", Thing) == Thing(length_m=1.25, name="y")
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["thing.json"]


@pytest.mark.parametrize("text", ["[" * 150_000, '{"x":' * 150_000, '{"schema_version":1,"x":' + "[" * 150_000])
def test_what_is_nested_too_deeply_is_not_readable(text: str) -> None:
    for kind in (Parcel, Unversioned):
        with pytest.raises(RunFormatError) as refused:
            decode_json("parcel.json", text.encode(), kind)
        assert refused.value.id == "file.unreadable"


def test_a_full_disk_leaves_nothing_and_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_bytes(path, b"before")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(PerfkitError, match=str(path)):
        write_bytes(path, b"after")
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"before"]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "a.log"
    other.write_text("mine")
    (tmp_path / f".a.json.{os.getpid()}.tmp").symlink_to(other)
    write_bytes(tmp_path / "a.json", b"data")
    path.symlink_to(other)
    with pytest.raises(OSError, match="link"):
        open_log(path)
    assert (other.read_text(), (tmp_path / "a.json").read_bytes()) == ("mine", b"data")
    path.unlink()
    for line in (b"1\n", b"2\n"):
        with open_log(path) as log:
            log.write(line)
    assert path.read_bytes() == b"1\n2\n"
