import re
from pathlib import Path
from typing import Any

import pytest

from perfkit.errors import RunFormatError
from perfkit.files import decode_json, read_json, write_json
from perfkit.spec import Struct


class Thing(Struct):
    schema_version: int = 3
    length_m: float
    name: str = ""


def _metres(thing: dict[str, Any]) -> None:
    thing["length_m"] = thing.pop("length_cm") / 100


def _named(thing: dict[str, Any]) -> None:
    thing["name"] = f"thing of {thing['length_m']} m"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"schema_version": 3, "length_m": 2, "name": "x"}', Thing(length_m=2, name="x")),
        ('{"schema_version": 2, "length_m": 2}', Thing(length_m=2, name="thing of 2 m")),
        ('{"schema_version": 1, "length_cm": 150}', Thing(length_m=1.5, name="thing of 1.5 m")),
        ('{"length_m": 2}', Thing(length_m=2)),
    ],
)
def test_older_formats_are_brought_to_todays_step_by_step(tmp_path: Path, text: str, expected: Thing) -> None:
    path = tmp_path / "thing.json"
    path.write_text(text)
    # In no particular order: the steps are taken in that of the formats.
    assert read_json(path, Thing, {2: _named, 1: _metres}) == expected


def test_without_a_migration_an_older_format_must_still_fit(tmp_path: Path) -> None:
    path = tmp_path / "thing.json"
    path.write_text('{"schema_version": 2, "length_m": 2}')
    assert read_json(path, Thing) == Thing(length_m=2)
    path.write_text('{"schema_version": 1, "length_cm": 150}')
    with pytest.raises(RunFormatError, match=r"thing\.json: .*Thing.*length_cm"):
        read_json(path, Thing)


def test_newer_formats_and_other_files_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "thing.json"
    for text, message in [
        ('{"schema_version": 4, "length_m": 2}', "written in format 4, this perfkit reads up to 3"),
        ('{"schema_version": "1", "length_m": 2}', r"\$\.schema_version"),
        ("[1]", "not a valid Thing"),
        ("{", "not a valid Thing"),
    ]:
        path.write_text(text)
        with pytest.raises(RunFormatError, match=rf"thing\.json: .*{message}"):
            read_json(path, Thing, {1: _metres})
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


@pytest.mark.parametrize(
    "written", [_PARCEL % (12, ""), _PARCEL % (11, ', "gone": 1'), _PARCEL % (12, ', "foreign": {}')]
)
def test_a_file_that_ends_in_the_middle_is_truncated_wherever_it_was_cut(written: str) -> None:
    data = written.encode()
    for kept in range(len(data)):
        with pytest.raises(RunFormatError) as refused:
            decode_json("parcel.json", data[:kept], Parcel, {11: lambda parcel: parcel.pop("gone")})
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
