import re
from pathlib import Path

import pytest

from perfkit.core.errors import OlderFormatError, RunFormatError
from perfkit.core.files import decode_json, read_json, write_json
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
